"""The words in braces that values may use: ``{output_dir}``, ``{run_id}``, ``{run_dir}``.

Exactly these are replaced. Every other brace is the user's own: JSON, a prompt's ``{question}``.
"""

from __future__ import annotations

import difflib
import re
from typing import Mapping

from slurmswift.domain.schema import UnreadableError

PLACEHOLDERS = ("output_dir", "run_id", "run_dir")
_KNOWN = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")
_WORD = re.compile(r"\{\s*([A-Za-z][A-Za-z_-]*)\s*\}")
# Other tools' words for the same things; near misses are found by likeness. Not {output}: prompts
# have that.
_MEANT = {
    "job_id": "run_id",
    "jobid": "run_id",
    "slurm_job_id": "run_id",
    "out_dir": "output_dir",
    "run_name": "run_id",
    "rundir": "run_dir",
    "workdir": "run_dir",
}
_LIKENESS = 0.8


def replace(text: str, values: Mapping[str, str]) -> str:
    """Return ``text`` with each placeholder replaced once; what a value brings stays as it is."""
    return _KNOWN.sub(lambda match: values[match.group(1)], text)


def check_placeholders(text: str) -> str:
    """Return ``text``; UnreadableError where a word was meant as a placeholder."""
    for word in _WORD.findall(text):
        if word in PLACEHOLDERS and f"{{{word}}}" in text:
            continue
        plain = word.lower().replace("-", "_")
        near = [plain] if plain in PLACEHOLDERS else []
        near = near or difflib.get_close_matches(plain, PLACEHOLDERS, n=1, cutoff=_LIKENESS)
        meant = _MEANT.get(plain) or (near[0] if near else "")
        if meant:
            raise UnreadableError(f"no such placeholder: {{{word}}}", f"write {{{meant}}}")
    return text
