"""Renders a plan into a script, by Jinja2's sandbox in a child process with limits.

A template can print a value only by ``sh`` or ``directive``, in two places only, and every script
is rendered a second time to prove it (domain/script_check.py).
"""

from __future__ import annotations

import hashlib
import json
import re
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from slurmswift.domain.plan import Plan
from slurmswift.domain.quoting import directive, shell_word
from slurmswift.domain.schema import UnreadableError
from slurmswift.domain.script_check import (
    TemplateValues,
    check_canaries,
    check_script,
    with_canaries,
)
from slurmswift.errors import Problem, RecipeError
from slurmswift.files.regular_file import TooLargeError, read_regular
from slurmswift.files.sandbox import Limits, SandboxError, run_limited

SUFFIX = ".sbatch.j2"
MAX_TEMPLATE_BYTES = 256 * 1024
MAX_SCRIPT_BYTES = 1024 * 1024  # Slurm's own max_script_size is 4 MiB
LIMITS = Limits(output_bytes=8 * MAX_SCRIPT_BYTES)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_PACKAGE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Script:
    """The text that is given to sbatch, and what it can be recognised by."""

    text: str
    digest: str


def template_folders(recipe_dir: Path) -> tuple[Path, ...]:
    """Return where templates are looked for: beside the recipe, then the built-in."""
    built_in = _PACKAGE / "_templates"  # in a wheel; a checkout has them beside the package
    if not built_in.is_dir():
        built_in = _PACKAGE.parent / "templates"
    return (recipe_dir / "templates", built_in)


def render_script(plan: Plan, search_path: Sequence[Path], *, limits: Limits = LIMITS) -> Script:
    """Return the plan's script; RecipeError names the template's file and line at fault."""
    name = plan.template
    folders = tuple(search_path)
    if name.startswith("/"):  # a template of one's own; what it extends may lie beside it
        folders, name = (Path(name).parent, *folders), Path(name).name
    else:
        name += SUFFIX
    values = plan.template_values()
    tried, canaries = with_canaries(values)

    def work() -> bytes:
        environment = _environment(folders)
        return json.dumps(
            [_render(environment, name, values), _render(environment, name, tried)]
        ).encode("utf-8", "surrogatepass")

    try:
        real, trial = json.loads(run_limited(work, limits))
    except SandboxError as error:
        raise RecipeError((_problem(name, f"rendering {error}"),)) from error
    for outcome in (real, trial):
        if "message" in outcome:
            raise RecipeError((_problem(outcome["where"], outcome["message"], outcome["fix"]),))
    text = real["text"]
    wrong = [*check_script(text), *check_canaries(trial["text"], tried, canaries)]
    if wrong:
        raise RecipeError(
            tuple(_problem(f"{name}: line {line} of the script", what) for line, what in wrong)
        )
    if len(text.encode()) > MAX_SCRIPT_BYTES:
        raise RecipeError((_problem(name, "the script is larger than 1 MiB"),))
    return Script(text, hashlib.sha256(text.encode()).hexdigest())


def _problem(where: str, message: str, fix: str = "") -> Problem:
    return Problem(where, message, fix, rule="template")


class _Quoted(str):
    """Text that is safe where it stands. Made by this module alone."""

    __slots__ = ()

    def __new__(cls, text: str, *, by: object = None) -> _Quoted:  # noqa: PYI034 - Self came with 3.11
        # Jinja2's own str.format would make one out of anything.
        if by is not _MAKER:
            raise TypeError("text does not become safe by itself: use |sh")
        return super().__new__(cls, text)


_MAKER = object()


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox, in which quoted text cannot be changed any more."""

    # Blocks, macros and super() are put together from parts that were quoted one by one.
    @staticmethod
    def concat(parts: Iterable[str]) -> str:
        return _Quoted("".join(parts), by=_MAKER)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        return not isinstance(obj, str) and super().is_safe_attribute(obj, attr, value)


def _sh(value: object) -> _Quoted:
    if isinstance(value, jinja2.Undefined):
        str(value)  # raises, and names what is missing
    if not isinstance(value, (str, int)):
        raise TypeError(f"{value!r} is not one value: |sh quotes text and numbers")
    return _Quoted(shell_word(value), by=_MAKER)


def _directive(option: object) -> _Quoted:
    if not (isinstance(option, tuple) and len(option) == 2):  # noqa: PLR2004 - a pair
        raise TypeError(f"{option!r} is not an option of plan.sbatch")
    return _Quoted(directive(*option), by=_MAKER)


def _finalize(value: object) -> object:
    if isinstance(value, jinja2.Undefined):
        return str(value)  # raises: StrictUndefined
    if isinstance(value, _Quoted):
        return value
    raise TypeError(f"{value!r} is not quoted: write {{{{ value|sh }}}}")


def _environment(folders: Sequence[Path]) -> jinja2.Environment:
    environment = _Environment(
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FunctionLoader(_loader(folders)),
        finalize=_finalize,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        cache_size=20,
        auto_reload=False,
    )
    environment.globals.clear()
    environment.filters.clear()
    environment.filters.update(sh=_sh, directive=_directive)
    return environment


def _loader(folders: Sequence[Path]) -> Callable[[str], tuple[str, str, None] | None]:
    def load(name: str) -> tuple[str, str, None] | None:
        if not _NAME.fullmatch(name):
            return None
        for folder in folders:
            text = _read(folder / name)
            if text is not None:
                return text, str(folder / name), None
        return None

    return load


def _read(path: Path) -> str | None:
    """Return a template's text, None where there is no such regular file."""
    try:
        raw = read_regular(path, MAX_TEMPLATE_BYTES)
    except TooLargeError as error:
        raise jinja2.TemplateSyntaxError(str(error.strerror), 1, filename=str(path)) from error
    except OSError:
        return None
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise jinja2.TemplateSyntaxError("is not UTF-8 text", line, filename=str(path)) from error


# What a template's own mistakes can raise while it renders.
_MISTAKES = (
    jinja2.TemplateError,
    UnreadableError,
    TypeError,
    ValueError,
    AttributeError,
    LookupError,
    ArithmeticError,
    SyntaxError,  # of the Python that Jinja2 makes of it: more than 20 loops in each other
    RecursionError,
)


def _render(environment: jinja2.Environment, name: str, values: TemplateValues) -> dict[str, str]:
    """Return the text, or where and why there is none."""
    try:
        return {"text": environment.get_template(name).render(plan=SimpleNamespace(**values.all()))}
    except jinja2.TemplateNotFound as error:
        return {
            "where": name,
            "message": f"there is no template '{error.name}'",
            "fix": "write the name of a template, without " + SUFFIX,
        }
    except jinja2.TemplateSyntaxError as error:
        where = f"{error.filename or error.name or name}:{error.lineno}"
        return {"where": where, "message": error.message or "is no template", "fix": ""}
    except _MISTAKES as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if frame.filename.endswith(".j2")]
        where = f"{own[-1].filename}:{own[-1].lineno}" if own else name
        message = "includes itself without end" if isinstance(error, RecursionError) else str(error)
        return {"where": where, "message": message or type(error).__name__, "fix": ""}
