"""Writes flight recorder dumps of a simulated run. They contain what NCCL's recorder would record, and no more.

    write(world, run, folder)       # nccl_rank_0.json, nccl_rank_1.json, ... of ranks that did not die

A dump contains no steps, roots or reductions. A call has a place, its line. A call is over if all members have called
it, and if all earlier calls on its stream are over. This module does not use the reader that the tests check.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dpsim.contract.ops import (
    COMMUNICATOR,
    COUNT,
    DTYPE,
    KIND,
    OP,
    SEQ,
    STREAM,
    TRANSFER_GROUP,
    TRANSFER_PEER,
    WHERE,
    RawRecord,
)
from dpsim.contract.world import Run, World

CALLS = ("collective", "transfer")


def write(world: World, run: Run, folder: Path) -> None:
    """Writes a JSON file for each rank that did not die."""
    calls = {rank: [raw for raw in run.journals[rank] if raw[KIND] in CALLS] for rank in range(world.size)}
    over = _over(world, calls)
    for rank, own in calls.items():
        if run.ends[rank] != "died":
            (folder / f"nccl_rank_{rank}.json").write_text(json.dumps(_dump(world, rank, own, over)))


def anything_unfinished(world: World, run: Run) -> bool:
    """Returns whether the dumps show a call that is not over, or lack a rank."""
    calls = {rank: [raw for raw in run.journals[rank] if raw[KIND] in CALLS] for rank in range(world.size)}
    over, died = _over(world, calls), {rank for rank in calls if run.ends[rank] == "died"}
    return any((rank, at) not in over for rank, own in calls.items() if rank not in died for at in range(len(own)))


def _dump(world: World, rank: int, own: list[RawRecord], over: set[tuple[int, int]]) -> dict[str, Any]:
    specs = {spec.name: spec for spec in world.communicators}
    kinds = sorted({spec.kind for spec in world.communicators})
    seqs: Counter[str] = Counter()
    entries = []
    for at, raw in enumerate(own):
        spec = specs[raw[COMMUNICATOR]]
        name = raw[OP]
        if raw[KIND] == "transfer":
            arrow = "->" if name == "send" else "<-"
            name = f"{name} {spec.ranks.index(rank)}{arrow}{spec.ranks.index(raw[TRANSFER_PEER])}"
        else:
            seqs[spec.name] += 1
        file, _, line = raw[WHERE].rpartition(":")
        done = (rank, at) in over
        entries.append(
            {
                "record_id": at,
                "pg_id": kinds.index(spec.kind),
                "process_group": [spec.name, spec.kind],
                "collective_seq_id": seqs[spec.name],
                "p2p_seq_id": 0,
                "op_id": at,
                "profiling_name": f"nccl:{name}",
                "time_created_ns": at * 1000 + 1,
                "input_sizes": [[raw[COUNT]]],
                "input_dtypes": [raw[DTYPE]],
                "output_sizes": [[raw[COUNT]]],
                "output_dtypes": [raw[DTYPE]],
                "state": "completed" if done else "scheduled",
                "retired": done,
                "is_p2p": raw[KIND] == "transfer",
                "frames": [{"name": "f", "filename": file or "none.py", "line": int(line or 0)}],
            }
        )
    config = {
        spec.name: {"name": spec.name, "desc": spec.kind, "ranks": json.dumps(list(spec.ranks))}
        for spec in world.communicators
        if rank in spec.ranks
    }
    return {"version": "2.10", "entries": entries, "pg_config": config, "pg_status": {}}


def _over(world: World, calls: dict[int, list[RawRecord]]) -> set[tuple[int, int]]:
    """Returns the calls that are over, as (rank, index)."""
    size = {spec.name: len(spec.ranks) for spec in world.communicators}
    queues: dict[tuple[int, Any], list[int]] = defaultdict(list)
    for rank, own in calls.items():
        for at, raw in enumerate(own):
            queues[rank, raw[STREAM]].append(at)
    over: set[tuple[int, int]] = set()
    moved = True
    while moved:
        moved = False
        came: dict[Any, list[tuple[int, int]]] = defaultdict(list)
        for (rank, _), queue in queues.items():
            for at in _heads(calls[rank], queue):
                came[_meeting(rank, calls[rank][at])].append((rank, at))
        for key, there in came.items():
            if len(there) >= (size[key[0]] if len(key) == 2 else 2):
                moved = True
                over.update(there)
                for rank, at in there:
                    queues[rank, calls[rank][at][STREAM]].remove(at)
    return over


def _heads(own: list[RawRecord], queue: list[int]) -> Iterable[int]:
    """Yields the first call of a stream that is not over, and the calls of its coalesced group."""
    for at in queue:
        first, raw = own[queue[0]], own[at]
        together = raw[KIND] == first[KIND] == "transfer" and raw[TRANSFER_GROUP] == first[TRANSFER_GROUP] is not None
        if at != queue[0] and not (together and first[TRANSFER_GROUP] is not None):
            return
        yield at


def _meeting(rank: int, raw: RawRecord) -> tuple[Any, ...]:
    """Returns a key that is equal for the calls of one collective or transfer."""
    if raw[KIND] == "collective":
        return raw[COMMUNICATOR], raw[SEQ]
    sender, receiver = (rank, raw[TRANSFER_PEER]) if raw[OP] == "send" else (raw[TRANSFER_PEER], rank)
    return raw[COMMUNICATOR], sender, receiver, raw[SEQ]
