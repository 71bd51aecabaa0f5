"""Usual: learns the usual order of calls from all ranks of a job, and lists where one rank departs from it.

    receive  receive  size  text  hidden  hidden  size  text  hidden  hidden      as everywhere
    receive  receive  size  text  hidden  size  text  hidden  hidden              hidden once, elsewhere twice

Two calls are alike if source line, operation and kind of group are equal. A dump has no steps, so the calls of a rank
are one list, in which equal neighbours count as one repeated call. If ranks differ, the rank with one of these two
departures is to blame. A place is a position in the calls of any rank:

* A call is repeated a number of times that occurs nowhere else, and another number occurs in at least two places.
* A call directly follows another one, which happens nowhere else; elsewhere a third call is between the two.

New behaviour alone is no evidence, because it may be right. So departures count only if the job hangs. They show which
of two sides made a call too often or left it out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import groupby, pairwise
from typing import NamedTuple, TypeAlias

from dpsim.contract.words import counted, times
from dpsim.diagnose.dumps.entries import RecordedCall
from dpsim.diagnose.dumps.job import DumpedJob

PLACES = 2
"""The smallest number of other places that establish what is usual."""


class UsualCall(NamedTuple):
    """The identity of a call. `way`: for a transfer, whether the peer has a higher rank ("behind") or a lower one
    ("before").
    """

    line: str
    op: str
    kind: str
    way: str

    def __str__(self) -> str:
        return f"{self.op} on {self.kind}"


Runs: TypeAlias = list[tuple[UsualCall, int, int]]
"""A call, how often it was repeated, and the index of the first one in the rank's calls."""


class Departure(NamedTuple):
    """A departure of a rank from the usual order.

    `at` is the index of the call in the rank's list, and `token` the call in question. `more`: it made one call too
    many; otherwise it left one out. `or_left_out`: what the rank may have left out instead, because it comes between
    two of these calls elsewhere; empty if nothing does.
    """

    rank: int
    at: int
    token: UsualCall
    more: bool
    why: str
    or_left_out: str = ""


class Usual:
    """The usual order of calls in a job."""

    def __init__(self, job: DumpedJob) -> None:
        self.job = job

    @cached_property
    def tokens(self) -> dict[int, list[UsualCall]]:
        """The identities of the calls of each rank."""
        return {rank: [token_of(self.job, rank, call) for call in own] for rank, own in self.job.calls.items()}

    @cached_property
    def runs(self) -> dict[int, Runs]:
        return {rank: _runs(own) for rank, own in self.tokens.items()}

    @cached_property
    def _often(self) -> Counter[tuple[UsualCall, int]]:
        """How often each number of repetitions occurs, without a rank's first calls: start-up and first step may run
        together.
        """
        return Counter((token, often) for runs in self.runs.values() for token, often, begin in runs if begin)

    @cached_property
    def _pairs(self) -> Counter[tuple[UsualCall, UsualCall]]:
        return Counter((one[0], other[0]) for runs in self.runs.values() for one, other in pairwise(runs))

    @cached_property
    def _numbers(self) -> dict[UsualCall, set[int]]:
        numbers: dict[UsualCall, set[int]] = {}
        for token, often in self._often:
            numbers.setdefault(token, set()).add(often)
        return numbers

    @cached_property
    def _after(self) -> dict[UsualCall, set[UsualCall]]:
        after: dict[UsualCall, set[UsualCall]] = {}
        for one, other in self._pairs:
            after.setdefault(one, set()).add(other)
        return after

    def _between(self, rank: int, token: UsualCall) -> str:
        """Returns the single call that comes between two of these calls of the rank, or else of any rank."""
        for ranks in ((rank,), tuple(self.runs)):
            triples = (own[at : at + 3] for own in map(self.runs.get, ranks) if own for at in range(len(own) - 2))
            found = {mid[0] for one, mid, other in triples if one[0] == token == other[0] and mid[1] == 1}
            if found:
                return str(*found) if len(found) == 1 else "a call"
        return ""

    def departures(self, rank: int) -> list[Departure]:
        """Returns the departures of a rank from the usual order."""
        found = []
        runs = self.runs[rank]
        for at, (token, often, begin) in enumerate(runs):
            last = at == len(runs) - 1
            if at:
                found += self._number(rank, token, often, begin, last)
                found += self._left_out(rank, at, runs[at - 1][0], token, begin)
        return found

    def _number(self, rank: int, token: UsualCall, often: int, begin: int, last: bool) -> list[Departure]:
        others = {number: self._often[token, number] for number in self._numbers.get(token, ()) if number != often}
        usual = max(others, key=lambda number: others[number], default=often)
        if self._often[token, often] > 1 or sum(others.values()) < PLACES or (last and often < max(others)):
            return []
        if abs(usual - often) != 1:  # one mistake changes the number by one
            return []
        why = f"rank {rank} made {token} {times(often)} in a row; elsewhere it comes {times(usual)}"
        between = self._between(rank, token) if often > usual else ""
        why = f"{why} ({counted(others[usual], 'place')})"
        return [Departure(rank, begin + min(often, usual), token, often > usual, why, between)]

    def _left_out(self, rank: int, at: int, before: UsualCall, token: UsualCall, begin: int) -> list[Departure]:
        """Returns a departure from an order that the rank itself showed before, because a first step may lack calls."""
        if self._pairs[before, token] > 1:
            return []
        earlier = {other[0] for one, other in pairwise(self.runs[rank][:at]) if one[0] == before}
        for between in sorted(self._after[before] & earlier - {token}):
            number = min(self._pairs[before, between], self._pairs[between, token])
            if number:
                why = f"{between} comes between {before} and {token} in {counted(number, 'other place')}"
                return [Departure(rank, begin, between, False, why)]
        return []


def token_of(job: DumpedJob, rank: int, call: RecordedCall) -> UsualCall:
    """Returns the identity of a call."""
    way = ""
    if call.shape.is_transfer:
        way = "behind" if job.peer(call) > rank else "before"
    return UsualCall(call.place.line, call.shape.op, job.groups[call.group].kind, way)


def _runs(tokens: Sequence[UsualCall]) -> Runs:
    runs, begin = [], 0
    for token, own in groupby(tokens):
        often = sum(1 for _ in own)
        runs.append((token, often, begin))
        begin += often
    return runs


def lone(departures: Mapping[int, Sequence[Departure]]) -> dict[int, list[Departure]]:
    """Returns the departures that no other rank shares, because several ranks seldom make the same mistake."""
    ranks: dict[tuple[str, str], set[int]] = {}
    for rank, own in departures.items():
        for one in own:
            ranks.setdefault((one.token.op, one.token.kind), set()).add(rank)
    kept = {
        rank: [one for one in own if len(ranks[one.token.op, one.token.kind]) == 1] for rank, own in departures.items()
    }
    return {rank: own for rank, own in kept.items() if own}
