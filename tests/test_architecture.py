"""The rules of docs/architecture.md, checked: who imports whom, each library's home, what travels.

Each test collects every breach of its rule, so that one run shows them all.
"""

from __future__ import annotations

import ast
import functools
import os
import pwd
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "slurmswift"

# A layer may import itself, the layers listed for it, and slurmswift.errors.
LOWER: dict[str, set[str]] = {
    "domain": set(),
    "slurm": {"domain"},
    "files": {"domain", "ages", "atomic"},
    "checkpoints": {"domain", "ages", "atomic"},
    "app": {"domain", "ages", "atomic", "slurm", "files", "checkpoints"},
    "node": {"domain", "ages", "atomic", "checkpoints"},
    "daemon": {"domain", "ages", "atomic", "slurm", "files", "checkpoints", "app"},
    "cli": {"domain", "ages", "atomic", "slurm", "files", "checkpoints", "app", "daemon"},
}

# A library, and the power to start a process, have one home. What is not listed is not used.
HOMES: dict[str, tuple[str, ...]] = {
    "subprocess": ("slurm/runner.py", "node/"),
    "ahocorasick_rs": ("files/fast_literals.py",),
    "yaml": ("files/yaml_text.py",),
    "jinja2": ("files/templates.py", "files/sandbox.py"),
    "filelock": ("files/lease.py",),
    "typer": ("cli/",),
}
# A template renders in a forked child with limits; nothing else may go round subprocess's homes.
FORK_HOME = "files/sandbox.py"
OTHER_WAYS_TO_START_A_PROCESS = re.compile(
    r"os\.(system|popen|fork|forkpty|exec[lv]p?e?|spawn[lv]p?e?|posix_spawnp?)"
    r"|pty\..*|multiprocessing(\..*)?|asyncio\.create_subprocess_\w+"
)
# The domain takes the time, the bytes and the environment as arguments.
IMPURE = {
    "io", "logging", "multiprocessing", "os", "pathlib", "random", "secrets", "select", "shutil",
    "signal", "socket", "subprocess", "sys", "tempfile", "threading", "time", "urllib", "uuid",
}  # fmt: skip
EFFECTS = {"open", "print", "input", "exec", "eval"}
CLOCKS = {"now", "today", "utcnow"}
MOST_LINES = 400

TRAVELS = ("__init__.py", "ages.py", "errors.py", "atomic.py", "domain/", "checkpoints/", "node/")
# Methods that are newer than 3.8, which no tool can tell from the name of a variable.
NEWER_METHODS = {"removeprefix", "removesuffix", "is_relative_to", "with_stem", "bit_count"}

SOURCES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
TRAVELLERS = [source for source in SOURCES if source.startswith(TRAVELS)]


def code_files() -> list[Path]:
    folders = ("slurmswift", "templates", "tests", "examples", "bench")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    return sorted(path for path in paths if path.suffix in {".py", ".j2"})


@functools.cache
def tree_of(source: str) -> ast.Module:
    return ast.parse((PACKAGE / source).read_text(encoding="utf-8"))


@functools.cache
def imported_names(source: str) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.walk(tree_of(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source}:{node.lineno}: write imports in full"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


def imported_roots(source: str) -> set[str]:
    return {name.partition(".")[0] for name in imported_names(source)}


def layer_of(source: str) -> str | None:
    return source.partition("/")[0] if "/" in source else None


def attributes_of(source: str) -> set[str]:
    """Return every ``a.b`` that the source reads, as text."""
    return {
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(tree_of(source))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }


def called_names(source: str) -> list[tuple[str, int]]:
    """Return each ``name(...)`` that the source calls, with its line."""
    return [
        (node.func.id, node.lineno)
        for node in ast.walk(tree_of(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]


def ours(source: str) -> list[tuple[str, str]]:
    """Return (module, its first part below slurmswift) of each import of our own."""
    # `from slurmswift import __version__` is a constant, not a layer.
    names = [name for name in imported_names(source) if name.startswith("slurmswift.")]
    return sorted((n, n.split(".")[1]) for n in names if n != "slurmswift.__version__")


def run_quietly(*arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        arguments, capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL
    )
    return done.returncode, done.stdout + done.stderr


def test_each_layer_is_there() -> None:
    assert {layer_of(source) for source in SOURCES} - {None} == set(LOWER)


def test_imports_point_down_the_layers() -> None:
    breaches = []
    for source in SOURCES:
        layer = layer_of(source)
        if source == "__main__.py":
            continue
        allowed = {"errors"} if layer is None else {layer, "errors", *LOWER[layer]}
        breaches += [f"{source}: {name}" for name, target in ours(source) if target not in allowed]

    assert "\n".join(breaches) == ""


def test_each_library_has_one_home() -> None:
    breaches = []
    for source in SOURCES:
        for root in sorted(imported_roots(source) - {"slurmswift"}):
            if root in HOMES:
                if not source.startswith(HOMES[root]):
                    breaches.append(f"{source}: {root} is at home in {HOMES[root]}")
            elif root not in sys.stdlib_module_names:
                breaches.append(f"{source}: {root} is no dependency of ours")

    assert "\n".join(breaches) == ""


def test_processes_are_started_at_home_only() -> None:
    breaches = [
        f"{source}: {name}"
        for source in SOURCES
        if source != FORK_HOME and not source.startswith("node/")
        for name in sorted(attributes_of(source) | imported_names(source))
        if OTHER_WAYS_TO_START_A_PROCESS.fullmatch(name)
    ]

    assert "\n".join(breaches) == ""


def test_the_domain_is_pure() -> None:
    breaches = []
    for source in [source for source in SOURCES if source.startswith("domain/")]:
        breaches += [f"{source}: imports {root}" for root in imported_roots(source) & IMPURE]
        breaches += [
            f"{source}:{line}: calls {name}"
            for name, line in called_names(source)
            if name in EFFECTS
        ]
        breaches += [
            f"{source}: reads a clock, {name}"
            for name in attributes_of(source)
            if name.partition(".")[2] in CLOCKS
        ]

    assert "\n".join(breaches) == ""


def test_only_the_command_line_and_the_agents_print() -> None:
    # An agent's step output is the job's log: all it has to say something with.
    breaches = [
        f"{source}:{line}"
        for source in SOURCES
        if not source.startswith(("cli/", "node/"))
        for name, line in called_names(source)
        if name == "print"
    ]

    assert "\n".join(breaches) == ""


def test_no_file_grows_past_reading() -> None:
    counted = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in code_files()}

    assert {
        str(path.relative_to(ROOT)): lines for path, lines in counted.items() if lines > MOST_LINES
    } == {}


def test_what_travels_needs_nothing_that_stays() -> None:
    breaches = []
    for source in TRAVELLERS:
        outside = imported_roots(source) - {"slurmswift"} - sys.stdlib_module_names
        breaches += [f"{source}: {root}" for root in sorted(outside)]
        breaches += [
            f"{source}: {name}"
            for name, target in ours(source)
            if not f"{target}/".startswith(TRAVELS) and f"{target}.py" not in TRAVELS
        ]

    assert "\n".join(breaches) == ""


def test_what_travels_is_written_in_python_3_8() -> None:
    breaches = []
    for source in TRAVELLERS:
        text = (PACKAGE / source).read_text(encoding="utf-8")
        try:
            ast.parse(text, feature_version=(3, 8))
        except SyntaxError as error:
            breaches.append(f"{source}:{error.lineno}: {error.msg}")
        methods = {n.attr for n in ast.walk(tree_of(source)) if isinstance(n, ast.Attribute)}
        breaches += [f"{source}: .{name}()" for name in sorted(methods & NEWER_METHODS)]

    assert "\n".join(breaches) == ""


def test_what_travels_uses_no_newer_library_than_3_8() -> None:
    # vermin knows since when each name of the standard library exists, also inside functions,
    # where an import on a real 3.8 sees nothing.
    status, output = run_quietly(
        str(Path(sys.executable).with_name("vermin")), "--no-tips", "--violations", "-t=3.8-",
        *(str(PACKAGE / source) for source in TRAVELLERS),
    )  # fmt: skip

    assert status == 0, output


def python_of_version(version: str) -> str | None:
    """Find a Python of this very version: on PATH, or among pyenv's."""
    # The tests' HOME points nowhere; the user's own is in the password database.
    pyenv = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".pyenv" / "versions"
    candidates = [shutil.which(f"python{version}")]
    candidates += [str(path) for path in sorted(pyenv.glob(f"{version}.*/bin/python"))]
    for candidate in filter(None, candidates):
        # pyenv puts shims on PATH, for versions that are not chosen too; those fail.
        program = "import sys; print('%d.%d' % sys.version_info[:2])"
        if run_quietly(candidate, "-c", program)[1].strip() == version:
            return candidate
    return None


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_what_travels_is_imported_by_a_real_python(version: str) -> None:
    python = python_of_version(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine; only the text was checked")
    modules = [
        "slurmswift." + source.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for source in TRAVELLERS
        if source != "__init__.py"
    ]
    program = (
        "import importlib, sys; sys.path.insert(0, sys.argv[1]); sys.dont_write_bytecode = True\n"
        "for name in sys.argv[2:]: importlib.import_module(name)"
    )

    assert run_quietly(python, "-I", "-W", "error", "-c", program, str(ROOT), *modules) == (0, "")
