"""The error boundary: every error becomes a message and an exit status, no traceback for input."""

from __future__ import annotations

import os
import sys

from slurmswift import __version__
from slurmswift.cli.direct import command_of
from slurmswift.cli.output import warn
from slurmswift.errors import ExitStatus, SlurmswiftError


def run_cli(arguments: list[str]) -> int:
    """Run one command line; return its exit status (DESIGN: 0-6, 70 a bug, 130/143 interrupted)."""
    try:
        command = command_of(arguments)
        status = _by_typer(arguments) if command is None else command()
    except SlurmswiftError as error:
        warn(f"slurmswift: {error}")
        status = int(error.exit_status)
    except KeyboardInterrupt:
        warn("slurmswift: interrupted")
        status = int(ExitStatus.INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): no error, and nothing more to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except Exception as error:  # noqa: BLE001 - the boundary: a bug is reported, not dumped
        status = _usage_error(error) or _report_bug(error)
    return status


def _by_typer(arguments: list[str]) -> int:
    import typer  # noqa: PLC0415 - heavy: `submit` does without

    from slurmswift.cli.app import app  # noqa: PLC0415

    try:
        status = app(arguments, standalone_mode=False, prog_name="slurmswift")
    except typer.Exit as error:
        return int(error.exit_code)
    except typer.Abort:
        raise KeyboardInterrupt from None
    return status if isinstance(status, int) else 0


def _usage_error(error: Exception) -> int | None:
    """Show what typer says of a wrong command line; None where the error is another one.

    By name: older releases of typer stand on the package click, newer ones bring their own copy.
    """
    if not any(kind.__name__ == "ClickException" for kind in type(error).__mro__):
        return None
    show = getattr(error, "show", None)
    if callable(show):
        show(file=sys.stderr)
    return int(ExitStatus.USAGE)


def _report_bug(error: Exception) -> int:
    import tempfile  # noqa: PLC0415 - rarely needed
    import traceback  # noqa: PLC0415

    handle, path = tempfile.mkstemp(prefix="slurmswift-bug-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as report:
        report.write(f"slurmswift {__version__}, python {sys.version}\n{sys.argv!r}\n\n")
        traceback.print_exception(error, file=report)
    warn(f"slurmswift: a bug: {type(error).__name__}: {error}")
    warn(f"the details are in {path}; please report them")
    return int(ExitStatus.BUG)
