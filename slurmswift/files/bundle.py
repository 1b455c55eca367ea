"""Packs what travels with a run into one zipapp, ``node.pyz``."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
# Standard library only, written for Python 3.8 (docs/architecture.md).
TRAVELS = ("__init__.py", "ages.py", "errors.py", "atomic.py", "domain", "checkpoints", "node")
_MAIN = b"import sys\nfrom slurmswift.node.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"
_STAMP = (2020, 1, 1, 0, 0, 0)  # the same sources give the same bytes


def node_bundle() -> bytes:
    """Return the zipapp's bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py", _STAMP), _MAIN)
        for source in _sources():
            name = f"slurmswift/{source.relative_to(PACKAGE).as_posix()}"
            archive.writestr(zipfile.ZipInfo(name, _STAMP), source.read_bytes())
    return buffer.getvalue()


def _sources() -> list[Path]:
    found: list[Path] = []
    for name in TRAVELS:
        path = PACKAGE / name
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return found
