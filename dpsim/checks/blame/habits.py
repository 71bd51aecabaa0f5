"""Habits: learns in which order the host threads of a run issue ops, to find the thread that breaks this order.

Suppose that a thread made one call twice, or left one out. Then its order of ops differs from all others at one place
only. If this module removes the additional call, or inserts the missing one, the order is usual again:

    permute  dispatch  expert  combine              in 15 other places
    permute  dispatch  dispatch  expert  combine    without one dispatch it equals them
    permute  expert  combine                        with dispatch after permute it equals them, too

An order that is merely new is no evidence, because the program may intend it. The module reads only records of ops. It
skips notes in the journal, such as results and planted faults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from dpsim.contract.kinds import SILENT
from dpsim.contract.ops import KIND, SITE, STEP, THREAD, RawRecord
from dpsim.contract.words import counted
from dpsim.contract.world import Run


class Stretch(NamedTuple):
    """A part of one host thread's journal within a step, from index `first` to index `last`, both included.

    If `last` is None, the part reaches to the end of the step.
    """

    rank: int
    thread: str
    step: int
    first: int
    last: int | None


class Question(NamedTuple):
    """Asks whether a rank went astray within these stretches.

    `made` is the site of the rank's call there, or None if it made no further call. `others` are the sites that the
    other ranks called instead.
    """

    stretches: Sequence[Stretch]
    made: str | None
    others: Collection[str]


Follows: TypeAlias = tuple[str, str]
"""A site, and the site of the op that the thread issued next."""


class Habits:
    """Counts, over a whole run, how often one site follows another on the same thread and step."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._all: Counter[Follows] | None = None

    def odd(self, questions: Mapping[int, Question]) -> dict[int, str]:
        """Returns the ranks that made a call too many or left one out, each with the evidence in words.

        Ops in the stretches in question do not count as evidence, from the first difference on. Every question has to
        list its stretches in the same order of threads.
        """
        if self._all is None:
            self._all = Counter(one for own in self._run.journals for sites in _threads(own) for one in pairwise(sites))
        did = _from_where_they_differ(
            {rank: [self._sites(one) for one in question.stretches] for rank, question in questions.items()}
        )
        here = Counter(one for threads in did.values() for sites in threads for one in pairwise(sites))
        elsewhere = self._all - here
        found = {}
        for rank, question in questions.items():
            ground = [
                *_too_many(did[rank], question.made, elsewhere),
                *_left_out(did[rank], question.others, elsewhere),
            ]
            if ground:
                found[rank] = ground[0]
        return found

    def _sites(self, stretch: Stretch) -> list[str]:
        rank, thread, step, first, last = stretch
        some = self._run.journals[rank][first : None if last is None else last + 1]
        return [raw[SITE] for raw in some if (raw[THREAD], raw[STEP]) == (thread, step) and _counts(raw)]


def _from_where_they_differ(did: dict[int, list[list[str]]]) -> dict[int, list[list[str]]]:
    """Returns the sites of each thread, beginning one site before the ranks first differ."""
    begins = []
    for sites in zip(*did.values(), strict=True):
        columns = enumerate(zip(*sites, strict=False))
        same = next((at for at, column in columns if len(set(column)) > 1), min(map(len, sites)))
        begins.append(max(0, same - 1))
    return {rank: [sites[at:] for sites, at in zip(own, begins, strict=True)] for rank, own in did.items()}


def _too_many(threads: list[list[str]], made: str | None, elsewhere: Counter[Follows]) -> Iterator[str]:
    for sites in threads:
        for before, call, after in zip(sites, sites[1:], sites[2:], strict=False):
            usual = elsewhere[before, after]
            if call == made and usual and not (elsewhere[before, call] and elsewhere[call, after]):
                yield f"without this {call}, {after} follows {before} as in {counted(usual, 'other place')}"


def _left_out(threads: list[list[str]], others: Collection[str], elsewhere: Counter[Follows]) -> Iterator[str]:
    for sites in threads:
        for before, after in pairwise(sites):
            for call in others:
                usual = min(elsewhere[before, call], elsewhere[call, after])
                if usual and not elsewhere[before, after]:
                    yield f"{call} comes between {before} and {after} in {counted(usual, 'other place')}"


def _threads(journal: list[RawRecord]) -> list[list[str]]:
    threads: dict[tuple[str, int], list[str]] = {}
    for raw in journal:
        if _counts(raw):
            threads.setdefault((raw[THREAD], raw[STEP]), []).append(raw[SITE])
    return list(threads.values())


def _counts(raw: RawRecord) -> bool:
    return raw[KIND] not in SILENT and raw[KIND] != "raised"
