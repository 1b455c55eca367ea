"""Proves of a rendered script that no value can be read as anything but itself (DESIGN.md 9).

Values may stand in two places: ``#SBATCH`` lines, and the assignments of one block at the top. A
template is rendered a second time with canaries in place of its values: text that would do damage
in each place where quoting is forgotten, or where it is not enough.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Sequence, Tuple, Union

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


_MARK = re.compile(r"cAnAry[0-9]+end")
_SAFE = frozenset({"framework"})  # one of our own words; templates may branch on it
_ASSIGNMENT = re.compile(
    r"\s*(?:(?:readonly|declare|local)(?: -[a-zA-Z]+)?|export) [A-Za-z_]\w*="
    r"(?:<\d+>|\((?: *(?:<\d+>|''))* *\)|''|[A-Za-z0-9_./:-]*)"
)
_STRUCTURE = re.compile(r"\s*(?::|fi|else|(?:el)?if \[\[ [^\"'`\\<>();&|]* \]\]; then)?|\s*#.*")
_WHERE_VALUES_STAND = (
    "values stand in '#SBATCH {{ option|directive }}' lines and in the block of values only"
)
_ONLY_ASSIGNMENTS = (
    "only assignments (readonly, export), 'if [[ ]]; then' and comments stand among the values"
)
_COMMENT = re.compile(r"\s*(#.*)?")


def with_canaries(values: TemplateValues) -> Tuple[TemplateValues, Dict[str, str]]:
    """Return the values with a canary for each text, and the canaries by their mark.

    What is empty stays empty, so that a template takes the same branches.
    """
    canaries: Dict[str, str] = {}

    def canary(text: str, *, more: str = "\n#SBATCH --wrap=z\nEOF\n") -> str:
        if text == "":
            return ""
        mark = f"cAnAry{len(canaries)}end"
        canaries[mark] = f"-{mark} $(touch x)`touch y`\"'\\ #;&|<>{{{{{more}"
        return canaries[mark]

    texts = {name: text if name in _SAFE else canary(text) for name, text in values.texts.items()}
    words = {name: tuple(canary(word) for word in some) for name, some in values.words.items()}
    pairs = {
        # A directive is one line; everywhere else a value may hold anything.
        name: tuple(
            (
                key,
                None
                if text is None
                else canary(text, more="")
                if name == DIRECTIVES
                else canary(text),
            )
            for key, text in some
        )
        for name, some in values.pairs.items()
    }
    return TemplateValues(texts, values.numbers, words, pairs), canaries


def check_script(text: str) -> List[Tuple[int, str]]:
    """Return what is wrong with a script's header, as line numbers and messages."""
    wrong: List[Tuple[int, str]] = []
    lines = text.split("\n")
    if lines[0] != "#!/bin/bash":
        wrong.append((1, "the first line must be #!/bin/bash: sbatch refuses a script without it"))
    if "\r" in text:
        wrong.append((1 + text[: text.index("\r")].count("\n"), "a carriage return"))
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
    lines = text.split("\n")
    try:
        start, end = lines.index(VALUES_START), lines.index(VALUES_END)
    except ValueError:
        return [(1, f"needs one block of values between '{VALUES_START}' and '{VALUES_END}'")]
    if lines.count(VALUES_START) + lines.count(VALUES_END) != 2 or end < start:  # noqa: PLR2004
        return [(start + 1, "needs exactly one block of values")]
    directives = {f"#SBATCH {directive(*pair)}" for pair in values.pairs.get(DIRECTIVES, ())}
    wrong = [
        (at + 1, _outside(line))
        for at, line in enumerate((*lines[:start], *[""] * (end - start + 1), *lines[end + 1 :]))
        if _MARK.search(line) and line not in directives
    ]
    wrong += _check_block("\n".join(lines[start + 1 : end]), start + 2, canaries)
    wrong += _late_directives(lines, start)
    return wrong


def _outside(line: str) -> str:
    where = "a directive" if line.startswith("#SBATCH") else "this line"
    return f"{where} holds a value; {_WHERE_VALUES_STAND}"


def _check_block(block: str, first: int, canaries: Mapping[str, str]) -> List[Tuple[int, str]]:
    """Every value one whole word of an assignment, and nothing else that could hold one."""
    for number, canary in enumerate(canaries.values()):
        quoted = shell_word(canary)
        # A quote before or behind would glue the word to another text.
        block = re.sub(
            rf"(?<![\w'\"\\$]){re.escape(quoted)}(?=[\s)]|$)",
            f"<{number}>" + "\0" * quoted.count("\n"),
            block,
        )
    wrong: List[Tuple[int, str]] = []
    at = first
    for line in block.split("\n"):
        plain = line.replace("\0", "")
        if _MARK.search(plain):
            wrong.append((at, "a value that is not one whole word: write name={{ plan.name|sh }}"))
        elif not (_ASSIGNMENT.fullmatch(plain) or _STRUCTURE.fullmatch(plain)):
            wrong.append((at, _ONLY_ASSIGNMENTS))
        elif plain.lstrip().startswith("#") and "<" in plain and re.search(r"<\d+>", plain):
            wrong.append((at, "a value in a comment, where its line breaks would end the comment"))
        at += 1 + line.count("\0")
    return wrong


def _late_directives(lines: Sequence[str], start: int) -> List[Tuple[int, str]]:
    """Directives of the template's own text that sbatch no longer reads."""
    return [
        (at + 1, "a directive behind the first command, where sbatch ignores it")
        for at, line in enumerate(lines)
        if at > start and re.match(r"\s*#SBATCH", line) and "--wrap=z" not in line
    ]
