#!/usr/bin/env python3
"""Scanning a long log beside ripgrep and grep, with the same literals; and `diagnose` of it.

    python bench/diagnose.py [--megabytes N] [--rounds N]

In the environment that it is started from, with the extra `fast`. Prints ratios of medians;
nothing here passes or fails.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.timing import Contender, show, take_turns
from bench.training_log import log
from slurmswift.domain.rules import GATES

PYTHON = sys.executable
SLURMSWIFT = str(Path(sys.executable).parent / "slurmswift")
# The scan alone, as a whole process: what `diagnose` does before it judges.
SCAN = """
import sys
from pathlib import Path
from slurmswift.files.log_bytes import read_log
print(len(read_log(Path(sys.argv[1])).data))
"""
PLAIN = "from slurmswift.files import fast_literals; fast_literals.IS_FAST = False" + SCAN
FEWER = 20  # the plain search takes minutes for a gigabyte: of so much less, and said so


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for tool in ("rg", "grep"):
        if shutil.which(tool) is None:
            sys.exit(f"{tool} is not there: install it (Debian, Ubuntu: ripgrep, grep)")
    with tempfile.TemporaryDirectory(prefix="slurmswift-bench-") as folder:
        measure(Path(folder), options.megabytes, options.rounds)


def measure(folder: Path, megabytes: int, rounds: int) -> None:
    whole, part, gates = folder / "job.log", folder / "part.log", folder / "gates"
    for path, size in ((whole, megabytes), (part, max(1, megabytes // FEWER))):
        with path.open("wb") as file:
            file.writelines(log(size=size << 20, seed=1))
    gates.write_bytes(b"\n".join(GATES) + b"\n")
    search = ["-F", "-a", "-f", str(gates), str(whole)]
    contenders = [
        Contender("scan", [PYTHON, "-c", SCAN, str(whole)]),
        Contender("rg -F -f", ["rg", "--no-config", "-j1", *search]),
        Contender("rg -n -F -f", ["rg", "--no-config", "-j1", "-n", *search]),
        Contender("grep -F -f", ["grep", *search], {"LC_ALL": "C"}),
        Contender("slurmswift diagnose", [SLURMSWIFT, "diagnose", str(whole)]),
        Contender(f"scan of 1/{FEWER}", [PYTHON, "-c", SCAN, str(part)]),
        Contender("the same without the extra", [PYTHON, "-c", PLAIN, str(part)]),
        Contender("python -c pass", [PYTHON, "-c", "pass"]),
    ]
    print(f"a log of {whole.stat().st_size / 1e9:.2f} GB, {len(GATES)} literals\n")
    show(
        take_turns(contenders, rounds=rounds, folder=folder),
        [
            ("scan", "rg -F -f"),
            ("scan", "grep -F -f"),
            ("slurmswift diagnose", "rg -n -F -f"),
            ("slurmswift diagnose", "scan"),
            ("the same without the extra", f"scan of 1/{FEWER}"),
        ],
    )


if __name__ == "__main__":
    main()
