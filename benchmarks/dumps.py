"""`python -m benchmarks.dumps [RANKS [ENTRIES]]`: measures time and memory to explain the dumps of a large job.

The benchmark creates the dumps of a job with tensor-parallel groups of eight, groups across them, and the world. One
rank omits a call. For 512 ranks with 2,000 entries each, one core must need less than 30 s and 1 GB. The time to write
the dumps does not count.
"""

from __future__ import annotations

import json
import pickle
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpsim.diagnose.dumps.judgement import judge_dumps
from dpsim.diagnose.dumps.reading import read_dumps

WIDE = 8
"""The number of ranks in a tensor-parallel group."""

MOST_S, MOST_MB = 30.0, 1024.0

FRAMES = [{"name": "all_reduce", "filename": "torch/distributed/distributed_c10d.py", "line": 3068}] + [
    {"name": f"f{at}", "filename": f"engine/module_{at}.py", "line": 10 * at} for at in range(9)
]


def calls(rank: int, number: int, odd: int) -> Iterator[tuple[str, int, int]]:
    """Yields the calls of a rank, in order: group, sequence number and place. Rank `odd` omits a call near the end, and
    stops.
    """
    seqs = {"tp": 0, "dp": 0, "world": 0}
    last = number - 6
    for at in range(number):
        kind = ("tp", "tp", "tp", "tp", "dp", "world")[at % 6]
        if at == last and rank == odd:
            return
        if at > last + (rank // WIDE != odd // WIDE) * 2:
            return
        seqs[kind] += 1
        yield kind, seqs[kind], at


def write(folder: Path, ranks: int, number: int, odd: int) -> None:
    """Writes a pickle for each rank."""
    for rank in range(ranks):
        own = [*calls(rank, number, odd)]
        first = rank - rank % WIDE
        members = {
            "tp": [*range(first, first + WIDE)],
            "dp": [*range(rank % WIDE, ranks, WIDE)],
            "world": [*range(ranks)],
        }
        names = {kind: f"{kind}{of[0]}" for kind, of in members.items()}
        entries = [_entry(names[kind], kind, seq, at, rank == odd or at < len(own) - 1) for kind, seq, at in own]
        config = {
            names[kind]: {"name": names[kind], "desc": kind, "ranks": json.dumps(of)} for kind, of in members.items()
        }
        dump = {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": entries}
        (folder / f"nccl_rank_{rank}").write_bytes(pickle.dumps(dump, protocol=4))


def _entry(name: str, kind: str, seq: int, at: int, over: bool) -> dict[str, Any]:
    return {
        "record_id": at,
        "pg_id": 0,
        "process_group": (name, kind),
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "op_id": seq,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": 10**18 + at * 1000,
        "input_sizes": [[8192]],
        "output_sizes": [[8192]],
        "input_dtypes": ["BFloat16"],
        "output_dtypes": ["BFloat16"],
        "state": "completed" if over else "scheduled",
        "retired": over,
        "timeout_ms": 600_000,
        "is_p2p": False,
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "frames": [*FRAMES],
    }


def main(words: list[str]) -> int:
    ranks, number = (int(word) for word in (*words, *("512", "2000")[len(words) :]))
    odd = ranks // 2 + 5
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), ranks, number, odd)
        begun = time.process_time()
        found = judge_dumps(read_dumps(Path(folder)))
        took = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{ranks} ranks x {number} entries: {took:.1f} s of a core, {peak:.0f} MB at most")
    assert found.culprit is not None, found
    assert found.culprit.ranks == (odd,), found
    return int(ranks >= 512 and (took > MOST_S or peak > MOST_MB))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
