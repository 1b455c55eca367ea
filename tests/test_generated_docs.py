"""The pages that are printed from tables are as the tables say now."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_page_of_causes_is_fresh() -> None:
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    written = (ROOT / "docs" / "reference" / "causes.md").read_text(encoding="utf-8")

    assert written == generate["causes_page"](), "run docs/generate.py"
