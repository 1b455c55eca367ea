"""The error boundary: every error becomes a message and an exit status, no traceback for input."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback

from slurmswift import __version__
from slurmswift.cli.output import warn
from slurmswift.errors import ExitStatus, SlurmswiftError


def run_cli(arguments: list[str]) -> int:
    """Run one command line; return its exit status (DESIGN: 0-6, 70 a bug, 130/143 interrupted)."""
    import click  # noqa: PLC0415 - comes with typer, and is as heavy
    from slurmswift.cli.app import app  # noqa: PLC0415

    os.umask(0o077)
    try:
        status = app(arguments, standalone_mode=False, prog_name="slurmswift")
    except SlurmswiftError as error:
        warn(f"slurmswift: {error}")
        return int(error.exit_status)
    except click.exceptions.Exit as error:
        return int(error.exit_code)
    except click.ClickException as error:
        error.show(file=sys.stderr)
        return int(ExitStatus.USAGE)
    except (KeyboardInterrupt, click.exceptions.Abort):
        warn("slurmswift: interrupted")
        return int(ExitStatus.INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): no error, and nothing more to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001 - the boundary: a bug is reported, not dumped
        return _report_bug(error)
    return status if isinstance(status, int) else 0


def _report_bug(error: Exception) -> int:
    handle, path = tempfile.mkstemp(prefix="slurmswift-bug-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as report:
        report.write(f"slurmswift {__version__}, python {sys.version}\n{sys.argv!r}\n\n")
        traceback.print_exception(error, file=report)
    warn(f"slurmswift: a bug: {type(error).__name__}: {error}")
    warn(f"the details are in {path}; please report them")
    return int(ExitStatus.BUG)
