"""Alike: finds the one rank whose calls differ from those of all ranks that made the same calls so far.

    ranks 0, 1, 3   all_reduce on tp   all_reduce on world   all_gather on dp   all_reduce on tp   all_reduce on world
    rank 2          all_reduce on tp   all_reduce on world   all_gather on dp   all_reduce on world
                                                                                 ->  rank 2 left out all_reduce on tp

The ranks of one program make equal calls, each in its own groups. If the two ranks of a group made different calls,
neither is in the majority. So this module compares the calls of all ranks, and finds those that differ from the
majority. It compares source line, operation and kind of group, such as data or tensor parallel. If the recorder's ring
buffer has overwritten calls, the module starts each rank's list at a call that every rank made.

Ranks with different roles differ as early as in their first step, and this is no mistake. So the differing rank must
have made the call of the others at least once before.
"""

from __future__ import annotations

from typing import NamedTuple

from dpsim.checks.blame.plain_calls import COHORT, in_one_group
from dpsim.contract.words import counted
from dpsim.diagnose.dumps.entries import RecordedCall
from dpsim.diagnose.dumps.job import DumpedJob
from dpsim.diagnose.dumps.usual import Usual, UsualCall

FEWEST = 3
"""The smallest number of other ranks that must agree."""

COMPANIONS = COHORT
"""The number of other ranks with equal histories that confirm a call."""


class OddRank(NamedTuple):
    """The rank that differs from all others.

    `at` is the index of its call, and `theirs` the call of the others. `more`: it made one call too many; otherwise it
    left out theirs.
    """

    rank: int
    at: int
    theirs: UsualCall
    more: bool
    why: str


def odd_rank(job: DumpedJob, usual: Usual) -> OddRank | None:
    """Returns the one rank that differs from all others, or None."""
    begins = _begins(job)
    histories = {rank: usual.tokens[rank][begin:] for rank, begin in begins.items()}
    if len(histories) <= FEWEST:
        return None
    parted = in_one_group(histories)
    if parted is None or len(parted.ranks) != 1:
        return None
    [rank], at = parted.ranks, parted.at
    others = [one for one, own in histories.items() if one != rank and len(own) > at]
    theirs, mine = histories[others[0]][at], histories[rank][at]
    if len(others) < FEWEST or theirs not in histories[rank][:at]:
        return None
    longest = max((histories[one] for one in others), key=len)
    more = _alike(histories[rank][at + 1 :], longest[at:]) > _alike(histories[rank][at:], longest[at + 1 :])
    did = f"made {mine}" if more else f"made {mine} instead of {theirs}"
    why = f"{counted(len(others), 'rank')} made the same calls as rank {rank} before; there it {did}"
    return OddRank(rank, begins[rank] + at, theirs, more, why)


def companions(job: DumpedJob, usual: Usual, rank: int, call: RecordedCall) -> list[int]:
    """Returns the other ranks that made the same calls as this one, up to and including `call`."""
    begins = _begins(job)
    if rank not in begins:
        return []
    own = job.calls[rank][begins[rank] :]
    size = next((at + 1 for at, one in enumerate(own) if one is call or one == call), 0)
    history = usual.tokens[rank][begins[rank] : begins[rank] + size]
    return [
        other
        for other, begin in begins.items()
        if other != rank and usual.tokens[other][begin : begin + size] == history
    ]


def _begins(job: DumpedJob) -> dict[int, int]:
    """Returns, by rank, the index of a call that all ranks made; 0 if no ring buffer has lost calls."""
    if not any(dump.wrapped for dump in job.dumps.values()):
        return dict.fromkeys(job.calls, 0)
    group = max(job.groups.values(), key=lambda one: len(one.calls))
    calls = {rank: own for rank, own in group.calls.items() if own}
    first = max((own[0].seq for own in calls.values()), default=0)
    begins = {}
    for rank in calls:
        own = job.calls[rank]
        at = next((at for at, one in enumerate(own) if one.group == group.key and one.seq == first), None)
        if at is not None:
            begins[rank] = at
    return begins


def _alike(one: list[UsualCall], other: list[UsualCall]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))
