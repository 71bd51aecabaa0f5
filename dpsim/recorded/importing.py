"""Makes a scenario of the dumps or recordings of a job. In it, each rank makes the calls that it made in the job.

    scenario = imported(job, "hung")       # plain data in the form of a scenario file
    scenario["protocol"]["params"]["calls"][2][-1]      # "all_reduce default_pg 16 float32 sum open @train.py:42"

Dumps have no roots, so a broadcast from a dump has the first member of its group as root. Groups of one member have no
calls in the scenario. A rank that left no dump repeats the finished calls of a peer. It makes the collective in which
its peers wait for it, and dies there. If a dump shows that another rank did not make this collective, the rank lives.
"""

from __future__ import annotations

import re
from collections import Counter
from math import prod
from typing import Any, TypeAlias

from dpsim.contract.ops import DTYPES
from dpsim.contract.words import BadInput
from dpsim.diagnose.dumps.blocked_ranks import BlockedRanks, ranks_blocked_in
from dpsim.diagnose.dumps.entries import RecordedCall
from dpsim.diagnose.dumps.explanation import Suspect
from dpsim.diagnose.dumps.job import DumpedJob
from dpsim.diagnose.dumps.missing_dumps import absent_with_dump
from dpsim.recorded.repeatable import finished_with, repeatable_calls
from dpsim.recorded.rows import OPS, REDUCTIONS, CallRow

MOST = 20_000
"""The most calls that a scenario may have."""

_OF_TORCH = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Int": "int32",
    "Long": "int64",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
    "Float8_e4m3fn": "float8_e4m3fn",
    "Float8_e5m2": "float8_e5m2",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
}
"""For the element types of dumps, the names in dpsim. Any other type becomes int32."""

_SAME = (
    ("all_reduce_barrier", "barrier"),
    ("barrier", "barrier"),
    ("all_reduce", "all_reduce"),
    ("allreduce", "all_reduce"),
    ("all_gather", "all_gather"),
    ("allgather", "all_gather"),
    ("_allgather", "all_gather"),
    ("reduce_scatter", "reduce_scatter"),
    ("_reduce_scatter", "reduce_scatter"),
    ("all_to_all", "all_to_all"),
    ("alltoall", "all_to_all"),
    ("broadcast", "broadcast"),
    ("gather", "gather"),
    ("scatter", "scatter"),
    ("reduce", "reduce"),
)
"""How the names of operations in dumps begin, and the operation of dpsim. Any other operation becomes a barrier."""

FEWEST = 3
"""Each rank has to make the call that begins a step at least this number of times."""

Place: TypeAlias = tuple[str, str, str]


class CannotImport(BadInput):
    """dpsim cannot make a scenario of this job."""


def imported(job: DumpedJob, name: str) -> dict[str, Any]:
    """Returns a job's scenario, called `name`, as plain data. Raises CannotImport for more than MOST calls."""
    count = sum(map(len, job.calls.values()))
    if count > MOST:
        raise CannotImport(
            f"{count:,} calls; expected at most {MOST:,}: import the dumps of fewer ranks, or of a shorter ring"
        )
    size = max(job.ranks) + 1
    names = _names(job)
    groups = {names[key]: [*job.groups[key].members] for key in names}
    rows: list[list[CallRow]] = [[] for _ in range(size)]
    blocked = ranks_blocked_in(job)
    repeatable = repeatable_calls(job, blocked)
    for rank, own in repeatable.calls.items():
        rows[rank] = [_row(job, rank, call, names[call.group]) for call in own if call.group in names]
    for rank, model in repeatable.models.items():
        shared = finished_with(job, repeatable.calls[model], rank)
        own_rows = [_row(job, model, call, names[call.group]) for call in shared if call.group in names]
        rows[rank] = [_other_side(row, model) for row in own_rows]
    faults = _deaths(job, blocked, names, rows)
    calls = [[str(row) for row in own] for own in _with_steps(rows)]
    params = {"groups": groups, "calls": calls}
    return {"name": name, "protocol": {"name": "recorded", "params": params}, **({"faults": faults} if faults else {})}


def numbers_text(job: DumpedJob, culprit: Suspect | None) -> str:
    """Returns which number the culprit's collective has in `dpsim run`; empty if the job has no such call. Recorders
    count the calls of a group from 1, and may have dropped the first ones. Journals count from 0.
    """
    group = next((one for one in job.groups.values() if culprit is not None and one.name == culprit.group), None)
    if culprit is None or group is None:
        return ""
    calls = repeatable_calls(job, ranks_blocked_in(job)).calls.values()
    kept = ([call for call in own if call.group == group.key and not call.shape.is_transfer] for own in calls)
    at = next((at for own in kept for at, call in enumerate(own) if call.seq == culprit.seq), None)
    if at is None:
        return ""
    return f"{culprit.op} #{culprit.seq} on {culprit.group} is #{at} in dpsim run, which counts from 0"


def _names(job: DumpedJob) -> dict[str, str]:
    """A name occurs once, has no spaces, and at most 60 characters of the job's. Groups of one member have none."""
    found: dict[str, str] = {}
    often = Counter[str]()
    for key, group in job.groups.items():
        if len(group.members) > 1:
            name = plain = re.sub(r"[^\w.\[\],()-]+", "_", group.name, flags=re.ASCII)[:60]
            while name in often:
                name, often[plain] = f"{plain}.{often[plain]}", often[plain] + 1
            found[key], often[name] = name, 1
    return found


def _row(job: DumpedJob, rank: int, call: RecordedCall, group: str) -> CallRow:
    """Returns a rank's call as a row. Without a known root, the first member of the group is the root."""
    shape = call.shape
    inputs, outputs = (sum(map(prod, dims)) for dims in shape.dims)
    kind = next((word for words in shape.types for word in words), "int32")
    dtype = _OF_TORCH.get(kind, kind if kind in DTYPES else "int32")
    line = re.sub(r"\s+", "_", call.place.line)[-160:]
    if shape.is_transfer:
        count = inputs if shape.op == "send" else outputs
        return CallRow(shape.op, group, count, dtype, "", job.peer(call), not call.over, line)
    op = next((ours for theirs, ours in _SAME if shape.op.lower().startswith(theirs)), "barrier")
    assert op in OPS
    rooted = op in ("broadcast", "reduce", "gather", "scatter")
    members = job.groups[call.group].members
    root = members[shape.root] if 0 <= shape.root < len(members) else members[0]
    reduces = op in ("all_reduce", "reduce", "reduce_scatter")
    reduction = shape.reduction if shape.reduction in REDUCTIONS else "sum"
    return CallRow(
        op,
        group,
        0 if op == "barrier" else outputs if op == "scatter" else inputs,
        dtype,
        reduction if reduces else "",
        root if rooted else -1,
        not call.over,
        line,
    )


def _other_side(row: CallRow, peer: int) -> CallRow:
    other = {"send": "recv", "recv": "send"}.get(row.op)
    return row if other is None else row._replace(op=other, peer=peer)


def _deaths(
    job: DumpedJob, blocked: BlockedRanks, names: dict[str, str], rows: list[list[CallRow]]
) -> list[dict[str, Any]]:
    """Adds to `rows`, for each rank without a dump, the collective in which a peer waits for it. Returns for each such
    rank a fault by which it dies in this collective. A rank for which peers wait only in a transfer gets neither. If a
    rank with a dump did not join the collective either, the rank makes it and lives, so only the certain part fails.
    """
    faults, idle = [], {*absent_with_dump(job, blocked)}
    for rank in job.missing:
        waits = [wait for own in blocked.waits.values() for wait in own if rank in wait.absent]
        missed = next((wait for wait in waits if not wait.call.shape.is_transfer and wait.call.group in names), None)
        if missed is None:
            continue
        group = names[missed.call.group]
        before = sum(row.group == group and row.op in OPS for row in rows[rank])
        rows[rank].append(_row(job, missed.rank, missed.call, group)._replace(is_open=False))
        if idle & {*missed.absent}:
            continue
        faults.append({"kind": "die", "rank": rank, "at": {"communicator": group, "seq": before}})
    return faults


def _with_steps(ranks: list[list[CallRow]]) -> list[list[CallRow]]:
    """A step begins with each occurrence of the first call that every rank with calls makes at one line, at least
    FEWEST times. Without such a call, there are no steps.
    """
    anchor = _anchor(ranks)
    return ranks if anchor is None else [_stepped(own, anchor) for own in ranks]


def _anchor(ranks: list[list[CallRow]]) -> Place | None:
    counts = [Counter(map(_place, own)) for own in ranks if own]
    first = next((own for own in ranks if own), [])
    often = [place for place in map(_place, first) if place[2] and all(own[place] >= FEWEST for own in counts)]
    return often[0] if often else None


def _stepped(own: list[CallRow], anchor: Place) -> list[CallRow]:
    rows, step = [], 0
    for row in own:
        if _place(row) == anchor:
            rows.append(CallRow("step", step=step))
            step += 1
        rows.append(row)
    return rows


def _place(row: CallRow) -> Place:
    return row.op, row.group, row.line
