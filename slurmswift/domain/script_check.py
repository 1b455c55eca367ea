"""Proves of a rendered script that no value can be read as anything but itself (DESIGN.md 9).

Values may stand in two places: ``#SBATCH`` lines, and the assignments of one block at the top. A
template is rendered a second time with canaries in place of its values: text that would do damage
in each place where quoting is forgotten, or where it is not enough.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Tuple, Union

from slurmswift.domain.quoting import directive, shell_word

VALUES_START = "# --- values (written by slurmswift render) ---"
VALUES_END = "# --- end of values ---"
DIRECTIVES = "sbatch"  # the pairs that become #SBATCH lines

Pairs = Tuple[Tuple[str, Optional[str]], ...]


@dataclass(frozen=True)
class TemplateValues:
    """What a template may see of a plan, by name."""

    texts: Mapping[str, str]
    numbers: Mapping[str, int]
    words: Mapping[str, Tuple[str, ...]]
    pairs: Mapping[str, Pairs]  # names are one of ours; what they hold is the user's

    def all(self) -> Dict[str, Union[str, int, Tuple[str, ...], Pairs]]:
        return {**self.texts, **self.numbers, **self.words, **self.pairs}


_SAFE = frozenset({"framework"})  # one of our own words; templates may branch on it
# What does damage wherever quoting is forgotten or not enough. Directives have no lines.
_LINES = "\n#SBATCH --wrap=z\nEOF\n"
_DAMAGE = "$(touch x)`touch y`\"'\\ #;&|<>{{"
_LONG_MARK = re.compile(r"-?cAnAry[0-9]+end(?: \$\(touch x\)`touch y`\S+ #;&\|<>\{\{)?")
_WORD = "\x02"  # a canary that is one word
_ASSIGNMENT = re.compile(
    r"\s*(?:(?:readonly|declare|local)(?: -[a-zA-Z]+)?|export) [A-Za-z_]\w*="
    rf"(?:{_WORD}|\((?: *(?:{_WORD}|''))* *\)|''|[A-Za-z0-9_./:-]*)"
)
_STRUCTURE = re.compile(r"\s*(?::|fi|else|(?:el)?if \[\[ [^\"'`\\<>();&|]* \]\]; then)?")
_COMMENT = re.compile(r"\s*(#.*)?")
_SHOWN = 70


def with_canaries(values: TemplateValues) -> Tuple[TemplateValues, Dict[str, str]]:
    """Return the values with a canary for each text, and the canaries by their mark.

    What is empty stays empty, so that a template takes the same branches.
    """
    canaries: Dict[str, str] = {}

    def canary(text: str, lines: str = _LINES) -> str:
        if text == "":
            return ""
        mark = f"cAnAry{len(canaries)}end"
        canaries[mark] = f"-{mark} {_DAMAGE}{lines}"
        return canaries[mark]

    def held(text: Optional[str], lines: str) -> Optional[str]:
        return None if text is None else canary(text, lines)

    texts = {name: text if name in _SAFE else canary(text) for name, text in values.texts.items()}
    words = {name: tuple(canary(word) for word in some) for name, some in values.words.items()}
    pairs = {
        name: tuple((key, held(text, "" if name == DIRECTIVES else _LINES)) for key, text in some)
        for name, some in values.pairs.items()
    }
    return TemplateValues(texts, values.numbers, words, pairs), canaries


def check_script(text: str) -> List[Tuple[int, str]]:
    """Return what is wrong with a script's header, as line numbers and messages."""
    wrong: List[Tuple[int, str]] = []
    lines = text.split("\n")
    if lines[0] != "#!/bin/bash":
        wrong.append((1, "the first line must be #!/bin/bash: sbatch refuses a script without it"))
    first = next((at for at, line in enumerate(lines) if not _COMMENT.fullmatch(line)), len(lines))
    seen: Dict[str, int] = {}
    for at, line in enumerate(lines[:first]):
        if re.match(r"\s+#\s*SBATCH|#\s+SBATCH", line):
            wrong.append((at + 1, "a directive that sbatch ignores: it must start with #SBATCH"))
        option = re.match(r"#SBATCH --([a-z-]+)", line)
        if option is None and line.startswith("#SBATCH"):
            wrong.append((at + 1, "a directive that is not '#SBATCH --option'"))
        elif option is not None and seen.setdefault(option.group(1), at) != at:
            wrong.append((at + 1, f"--{option.group(1)} a second time: only the last one counts"))
    return wrong


def check_canaries(
    text: str, values: TemplateValues, canaries: Mapping[str, str]
) -> List[Tuple[int, str]]:
    """Return where a script rendered with canaries has a value in a place that is not safe."""
    lines = _marked(text, values, canaries).split("\n")
    try:
        start, end = lines.index(VALUES_START), lines.index(VALUES_END)
    except ValueError:
        return [(1, f"needs one block of values between '{VALUES_START}' and '{VALUES_END}'")]
    if lines.count(VALUES_START) + lines.count(VALUES_END) != 2 or end < start:  # noqa: PLR2004
        return [(start + 1, "needs exactly one block of values")]
    found = (
        (at, _wrong_value(line) if start < at < end else _wrong_elsewhere(line, late=at > end))
        for at, line in enumerate(lines)
    )
    return [(at + 1, f"{what}: {_shown(lines[at])}") for at, what in found if what]


def _marked(text: str, values: TemplateValues, canaries: Mapping[str, str]) -> str:
    """Return the script with a short mark for each canary that is one word of the shell.

    Good directives lose their values. What is left of other canaries keeps its long mark.
    """
    good = {f"#SBATCH {directive(*pair)}" for pair in values.pairs.get(DIRECTIVES, ())}
    text = "\n".join(line.partition("=")[0] if line in good else line for line in text.split("\n"))
    words = "|".join(re.escape(shell_word(canary)) for canary in canaries.values())
    if words:
        # A quote or letter before or behind would make one word of it and another text.
        text = re.sub(rf"(?<![\w'\"\\$])(?:{words})(?![^\s)])", _WORD, text)
    return text.replace(_LINES, "")


def _wrong_value(line: str) -> str:
    """Return what is wrong with a line among the values: each one whole word of an assignment."""
    if _LONG_MARK.search(line):
        return "a value that is not one whole word (write name={{ plan.name|sh }})"
    if line.lstrip().startswith("#"):
        return "a value in a comment, where its line breaks would end it" if _WORD in line else ""
    if _ASSIGNMENT.fullmatch(line) or _STRUCTURE.fullmatch(line):
        return ""
    return (
        "only assignments (readonly, export), 'if [[ ]]; then' and comments stand among the values"
    )


def _wrong_elsewhere(line: str, *, late: bool) -> str:
    if _WORD in line or _LONG_MARK.search(line):
        return (
            "a value outside '#SBATCH {{ option|directive }}' and the block of values (use the"
            ' variable that holds it, in double quotes: "$SW_RUN_DIR")'
        )
    if late and re.match(r"\s*#SBATCH", line):
        return "a directive behind the first command, where sbatch ignores it"
    return ""


def _shown(line: str) -> str:
    """Return a line as its template's author knows it, with a mark for each value."""
    line = _LONG_MARK.sub("VALUE", line.replace(_WORD, "VALUE")).strip()
    return line if len(line) <= _SHOWN else line[:_SHOWN] + "..."
