"""Twelve ways in which ranks of one Python process would share state. `isolated` holds if they share none. Each
`relies_on_N` relies on one way, and has to fail as it fails on a cluster.
"""

import functools
import os
import sys

import torch
import torch.distributed as dist

TABLE, LIST, COUNT = {}, [], 0


class Kind:
    seen = 0
    table = {}  # noqa: RUF012  # one of the ways


@functools.lru_cache
def cached():
    return os.environ.get("MARK", "none")


def default(one, kept=[]):  # noqa: B006  # one of the ways
    kept.append(one)
    return kept


GENERATOR = iter(range(9))


def ways(rank):
    """Writes a mark in each way, and returns the marks that were there before."""
    global COUNT
    found = [len(TABLE), len(LIST), COUNT, Kind.seen, len(Kind.table), len(default(rank)) - 1]
    TABLE[rank] = 1
    LIST.append(rank)
    COUNT += 1
    Kind.seen += 1
    Kind.table[rank] = 1
    found.append(int(os.environ.get("SEEN", 0)))
    os.environ["SEEN"] = str(found[-1] + 1)
    found.append(next(GENERATOR))
    found.append(len(getattr(ways, "notes", [])))
    ways.notes = [*getattr(ways, "notes", []), rank]
    found.append(int("mark_of_rank" in sys.modules))
    sys.modules["mark_of_rank"] = sys
    found.append(int(getattr(torch, "mark", 0)))
    torch.mark = 1
    os.environ["MARK"] = str(rank)
    found.append(int(cached() != str(rank)))
    return found


def isolated(rank, size):
    dist.barrier()
    found = ways(rank)
    dist.barrier()
    assert not any(found), found


def _relying(way):
    def main(rank, size):
        if rank == 0:
            ways(rank)
        dist.barrier()
        if rank:
            assert ways(rank)[way], "no other rank left its mark"

    return main


for _way in range(12):
    globals()[f"relies_on_{_way}"] = _relying(_way)
