"""Habits: what follows what, in all threads of all ranks of a run.

A thread that made a call twice, or left one out, does something there that no thread does anywhere else:

    permute  dispatch  experts  combine          in 15 places
    permute  dispatch  dispatch  experts         here alone `dispatch` follows `dispatch`

Only the kinds and sites of ops count. What a host learned, decided or passed by is none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from dpsim.contract.ops import KIND, SITE, STEP, THREAD, RawRecord
from dpsim.contract.world import SILENT, Run


class Stretch(NamedTuple):
    """What a thread of a rank did in a step, from one index of the journal to another one, both included. None is the
    end of the step.
    """

    rank: int
    thread: str
    step: int
    first: int
    last: int | None


Follows: TypeAlias = tuple[str, str]
"""A site, and the one that comes next."""


class Habits:
    """What follows what in a run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._all: Counter[Follows] | None = None

    def new(self, stretches: Mapping[int, Sequence[Stretch]]) -> dict[int, list[tuple[str, str, int]]]:
        """For each rank what follows what in its stretches and nowhere else, and in how many other places another op
        follows the first site. The stretches of all these ranks are no other places: they are what is in question.
        What all of them do is not new, nor is anything behind a site that no other place has.
        """
        if self._all is None:
            self._all = Counter(one for own in self._run.journals for one in _follows(_threads(own)))
        here = {rank: Counter(one for own in some for one in self._of(own)) for rank, some in stretches.items()}
        elsewhere = self._all - sum(here.values(), Counter[Follows]())
        behind: Counter[str] = Counter()
        for (before, _), count in elsewhere.items():
            behind[before] += count
        known = {one for one in self._all if elsewhere[one] or all(one in own for own in here.values())}
        return {
            rank: [(*one, behind[one[0]]) for one in own if one not in known and behind[one[0]]]
            for rank, own in here.items()
        }

    def _of(self, stretch: Stretch) -> Iterator[Follows]:
        rank, thread, step, first, last = stretch
        some = self._run.journals[rank][first : None if last is None else last + 1]
        return _follows([[raw for raw in some if (raw[THREAD], raw[STEP]) == (thread, step) and _counts(raw)]])


def _threads(journal: list[RawRecord]) -> list[list[RawRecord]]:
    threads: dict[str, list[RawRecord]] = {}
    for raw in journal:
        if _counts(raw):
            threads.setdefault(raw[THREAD], []).append(raw)
    return list(threads.values())


def _counts(raw: RawRecord) -> bool:
    return raw[KIND] not in SILENT and raw[KIND] != "raised"


def _follows(threads: list[list[RawRecord]]) -> Iterator[Follows]:
    return ((one[SITE], other[SITE]) for own in threads for one, other in pairwise(own) if one[STEP] == other[STEP])
