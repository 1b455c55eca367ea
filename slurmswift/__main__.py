"""Starts the command line, the version answered before anything heavy is imported."""

from __future__ import annotations

import sys

from slurmswift import __version__


def main() -> None:
    """Run the command that sys.argv names, and exit with its status."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"slurmswift {__version__}\n")
        return
    from slurmswift.cli.boundary import run_cli  # noqa: PLC0415 - `--version` stays light

    sys.exit(run_cli(sys.argv[1:]))


if __name__ == "__main__":
    main()
