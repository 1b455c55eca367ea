#!/usr/bin/env python3
"""How long it takes to judge a ZeRO-3 checkpoint of 1,024 ranks, beside `ls -l` of its folder.

    python bench/checkpoints.py [--ranks N] [--gigabytes G] [--rounds N]

The 2,048 shards are archives as torch.save leaves them, with a real pickle at the head and a real
directory at the tail. The tensor between them is a hole with the sum of as many zeros, so that the
folder takes a few megabytes of disk and each shard is whole by every rule. Holes cost the judge
more, not less: it sums them, which it does not do with written blocks.
Prints ratios of medians, and what was read; nothing here passes or fails.
"""

from __future__ import annotations

import argparse
import pickle
import struct
import sys
import tempfile
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.timing import ROOT, Contender, show, take_turns
from slurmswift.checkpoints import judge
from slurmswift.checkpoints.sums import crc_after_zeros

JUDGE = "import sys; from slurmswift.checkpoints import judge; assert judge(sys.argv[1]).whole"
STEP = 1000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="of each rank's shard")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"global_step{STEP}"
        write(path, options.ranks, int(options.gigabytes * 1e9))
        measure(path, options.rounds, Path(folder))


def measure(path: Path, rounds: int, folder: Path) -> None:
    source = {"PYTHONPATH": str(ROOT)}
    contenders = (
        Contender("ls -l", ("ls", "-l", str(path))),
        Contender("bare Python", (sys.executable, "-c", "pass")),
        Contender("judge", (sys.executable, "-c", JUDGE, str(path)), source),
        Contender(
            "slurmswift checkpoints",
            (sys.executable, "-m", "slurmswift", "checkpoints", str(path)),
            source,
        ),
    )
    times = take_turns(contenders, rounds=rounds, folder=folder)
    show(times, [("judge", "ls -l"), ("slurmswift checkpoints", "ls -l")])
    before = characters_read()
    judge(path)
    read = characters_read() - before
    count = sum(1 for _ in path.iterdir())
    size = sum(file.stat().st_size for file in path.iterdir())
    print(f"{count} files, {size / 1e12:.2f} TB: {read / 1e6:.1f} MB read, {read // count} a file")


def characters_read() -> int:
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


def write(path: Path, ranks: int, size: int) -> None:
    path.mkdir()
    shapes = [{f"layers.{layer}.weight": (4096, 4096) for layer in range(300)}]
    state = {"dp_world_size": ranks, "mp_world_size": 1, "param_shapes": shapes}
    states = {"model": pickle.dumps(state, 2), "optim": pickle.dumps({"zero_stage": 3}, 2)}
    for kind, pickled in states.items():
        head, tail = ends(pickled, size)
        for rank in range(ranks):
            shard = path / f"zero_pp_rank_{rank}_mp_rank_00_{kind}_states.pt"
            with shard.open("wb") as file:
                file.write(head)
                file.seek(size, 1)
                file.write(tail)


def ends(pickled: bytes, size: int) -> tuple[bytes, bytes]:
    """Return what comes before the tensor, and what comes after it."""
    if size >= 1 << 32:
        sys.exit("at most 4 GB: these archives have no zip64 records")
    entries = (
        (b"shard/data.pkl", zlib.crc32(pickled), len(pickled), pickled),
        (b"shard/data/0", crc_after_zeros(0, size), size, b""),
    )
    head, directory = b"", b""
    for name, crc, length, data in entries:
        common = struct.pack("<5HIIIHH", 20, 0, 0, 0, 0, crc, length, length, len(name), 0)
        directory += b"PK\1\2" + struct.pack("<H", 20) + common
        directory += struct.pack("<HHHII", 0, 0, 0, 0, len(head)) + name
        head += b"PK\3\4" + common + name + data
    places = struct.pack("<4HIIH", 0, 0, 2, 2, len(directory), len(head) + size, 0)
    return head, directory + b"PK\5\6" + places


if __name__ == "__main__":
    main()
