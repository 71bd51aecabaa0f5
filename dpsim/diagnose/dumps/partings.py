"""Partings: finds the first calls that paired up although they differ, in each group and in each pair of ranks.

    group "default_pg"   #5   rank 0 broadcast 16 Int   ranks 1 to 3 all_reduce 16 Int     ->  rank 0, by majority
    line 0 -> 1          #2   rank 0 sends 31 Long      rank 1 receives 1 Long             ->  no majority of two

The module searches the whole history: a broadcast among all_reduces may return, and only a later call hangs. Calls pair
up by their sequence number in the group. Calls that a ring buffer has overwritten are ignored.

Which arguments have to be equal depends on the operation. Members of an all_reduce contribute equal numbers of
elements. Members of an all_gather receive equal numbers, and may contribute different ones. For a gather, a scatter or
an all_to_all, the numbers prove nothing.
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
    """The arguments that have to be equal in paired calls. `elements`: None if they may differ. `root`: -1
    without one.
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
    """Calls that paired up although they differ. `odd`: the ranks of the minority; empty without a majority. `calls`:
    by rank.
    """

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
    """Returns the arguments that have to be equal in paired calls."""
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
    """Returns the first difference of each group and of each direction between two ranks, the earliest first."""
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
    ):  # a gap: operations that the recorder does not see, such as those of a CUDA graph
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
    """Yields the sends and receives of a direction that pair up."""
    sends, receives = line.sends, line.receives
    skip = shift(job, line)
    yield from zip(sends[max(0, -skip) :], receives[max(0, skip) :], strict=False)


def shift(job: DumpedJob, line: DumpLine) -> int:
    """Returns how many more of its first transfers the sender's ring buffer has lost than the receiver's.

    The numbers of finished transfers on both sides show it.
    """
    library = line.key[0].partition(":")[0]
    whole = all(rank in job.dumps and library not in job.dumps[rank].wrapped for rank in line.key[1:])
    return 0 if whole else _over(line.receives) - _over(line.sends)


def _over(calls: Sequence[RecordedCall]) -> int:
    return sum(call.over for call in calls)
