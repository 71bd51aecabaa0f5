"""Partings: the first different calls of the members of a group, or of the two sides of a line.

    group "default_pg"   #5   rank 0 broadcast 16 Int   ranks 1 to 3 all_reduce 16 Int     ->  rank 0, by majority
    line 0 -> 1          #2   rank 0 sends 31 Long      rank 1 receives 1 Long             ->  no majority of two

This module searches the whole history, and not only its end: a broadcast among all_reduces may end, and the next call
hangs. Calls meet by their number in the group. Calls that a ring has lost do not count.

The fields that have to be equal depend on the call. Members of an all_reduce bring equal numbers of elements. Those of
an all_gather get equal numbers, and may bring different ones. In a gather, a scatter or an all_to_all the numbers prove
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

from dpsim.checks.blame.plain_calls import in_one_group
from dpsim.diagnose.dumps.entries import RecordedCall, Shape
from dpsim.diagnose.dumps.job import DumpedJob, DumpGroup, DumpLine

SAME_INPUTS = ("all_reduce", "allreduce", "broadcast", "reduce_scatter", "_reduce_scatter")
SAME_OUTPUTS = ("all_gather", "allgather", "_allgather")
UNEVEN = ("coalesced", "oop", "sparse", "uneven")


class Called(NamedTuple):
    """The fields that have to be equal in calls that meet. `elements`: None if they may differ. `root`: -1 without
    one.
    """

    op: str
    elements: int | None
    dtype: str
    root: int = -1
    reduction: str = ""

    def __str__(self) -> str:
        what = f"{self.op} of {self.elements:,}" if self.elements is not None else self.op
        root = f"with root {self.root}" if self.root >= 0 else ""
        return " ".join(filter(None, (what, self.dtype, self.reduction, root)))


class CallParting(NamedTuple):
    """Different calls that meet. `odd`: the ranks that depart, none without a majority. `calls`: by rank."""

    group: str
    odd: tuple[int, ...]
    calls: dict[int, RecordedCall]
    ground: tuple[str, ...]

    @property
    def klass(self) -> str:
        """The class of the difference."""
        called = [*map(of_call, self.calls.values())]
        transfers = any(call.shape.is_transfer for call in self.calls.values())
        what = "TRANSFER" if transfers else "COLLECTIVE"
        if len({one.op for one in called}) > 1 and not transfers:
            return "MISMATCH:COLLECTIVE:OP"
        for field, differs in (("elements", "COUNT"), ("dtype", "DTYPE"), ("root", "ROOT"), ("reduction", "REDUCE")):
            if len({getattr(one, field) for one in called}) > 1:
                return f"MISMATCH:{what}:{differs}"
        return f"MISMATCH:{what}:DTYPE"

    @property
    def created(self) -> int:
        return min(call.created for call in self.calls.values())


def of_call(call: RecordedCall) -> Called:
    return called(call.shape)


@lru_cache(maxsize=65536)
def called(shape: Shape) -> Called:
    """The fields that have to be equal in calls that meet."""
    inputs, outputs = (sum(map(prod, dims)) for dims in shape.dims)
    dtype = next((kind for kinds in shape.types for kind in kinds), "")
    op = shape.op
    if op in ("send", "recv"):
        return Called(op, inputs if op == "send" else outputs, dtype)
    how = shape.root, shape.reduction
    if any(word in op for word in UNEVEN):
        return Called(op, None, dtype, *how)
    if op == "reduce" or op.startswith(SAME_INPUTS):
        return Called(op, inputs, dtype, *how)
    if op.startswith(SAME_OUTPUTS):
        return Called(op, outputs, dtype, *how)
    return Called(op, None, dtype if op.startswith("all") else "", *how)


def partings(job: DumpedJob) -> list[CallParting]:
    """The first parting of each group and line, the earliest first."""
    found = [parting for group in job.groups.values() if (parting := _in_group(job, group))]
    found += [parting for line in job.lines.values() if (parting := _on_line(job, line))]
    return sorted(found, key=lambda one: one.created)


def _in_group(job: DumpedJob, group: DumpGroup) -> CallParting | None:
    calls = {rank: own for rank, own in group.calls.items() if own}
    if len(calls) < 2:
        return None
    first = max(own[0].seq for own in calls.values())
    aligned = {
        rank: own if own[0].seq == first else [one for one in own if one.seq >= first] for rank, own in calls.items()
    }
    columns = {rank: [called(one.shape) for one in own] for rank, own in aligned.items()}
    longest = max(columns.values(), key=len)
    if all(own == longest[: len(own)] for own in columns.values()):
        return None
    parted = in_one_group(columns)
    if parted is None:
        return None
    there = {rank: own[parted.at] for rank, own in aligned.items() if parted.at < len(own)}
    if (
        len({call.seq for call in there.values()}) > 1
    ):  # a gap: operations that no recorder sees, such as those of a graph
        return None
    return CallParting(group.key, parted.ranks, there, parted.ground)


def _on_line(job: DumpedJob, line: DumpLine) -> CallParting | None:
    group, sender, receiver = line.key
    for send, receive in met(job, line):
        sent, got = of_call(send), of_call(receive)
        if sent[1:] != got[1:]:
            ground = f"rank {sender} sends {_words(sent)}, rank {receiver} receives {_words(got)}"
            return CallParting(group, (), {sender: send, receiver: receive}, (ground,))
    return None


def _words(called: Called) -> str:
    return f"{called.elements:,} {called.dtype}" if called.elements is not None else called.dtype


def met(job: DumpedJob, line: DumpLine) -> Iterator[tuple[RecordedCall, RecordedCall]]:
    """The sends and receives of a line that meet."""
    sends, receives = line.sends, line.receives
    skip = shift(job, line)
    yield from zip(sends[max(0, -skip) :], receives[max(0, skip) :], strict=False)


def shift(job: DumpedJob, line: DumpLine) -> int:
    """The number of first transfers that the sender's ring has lost more than the receiver's, by the finished ones."""
    library = line.key[0].partition(":")[0]
    whole = all(rank in job.dumps and library not in job.dumps[rank].wrapped for rank in line.key[1:])
    return 0 if whole else _over(line.receives) - _over(line.sends)


def _over(calls: Sequence[RecordedCall]) -> int:
    return sum(call.over for call in calls)
