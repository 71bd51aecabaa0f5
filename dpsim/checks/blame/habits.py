"""Habits: the usual order of ops, in all threads of all ranks of a run.

A thread that made a call twice, or left one out, is odd in one place. If the call is taken out, or put in, the thread
does there what threads do elsewhere:

    permute  dispatch  expert  combine              in 15 other places
    permute  dispatch  dispatch  expert  combine    without one dispatch it equals them
    permute  expert  combine                        with dispatch after permute it equals them, too

A new behaviour of a thread is no evidence, because it may be right. Only kinds of record that are ops count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from dpsim.contract.ops import KIND, SITE, STEP, THREAD, RawRecord
from dpsim.contract.words import counted
from dpsim.contract.world import SILENT, Run


class Stretch(NamedTuple):
    """The ops of a thread in a step, from one index of the journal to another, both included. None is the end of the
    step.
    """

    rank: int
    thread: str
    step: int
    first: int
    last: int | None


class Question(NamedTuple):
    """The question whether a rank went astray in these stretches. `made`: the site of its call there; None if it made
    no more. `others`: the sites of the calls of other ranks.
    """

    stretches: Sequence[Stretch]
    made: str | None
    others: Collection[str]


Follows: TypeAlias = tuple[str, str]
"""A site, and the next one."""


class Habits:
    """The usual order of ops in a run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._all: Counter[Follows] | None = None

    def odd(self, questions: Mapping[int, Question]) -> dict[int, str]:
        """The ranks that made a call too many or left one out, each with the evidence. The ops of these ranks in their
        stretches, from the first difference on, are in question and are no evidence. All have a stretch for each of
        some threads.
        """
        if self._all is None:
            self._all = Counter(one for own in self._run.journals for sites in _threads(own) for one in pairwise(sites))
        did = _from_where_they_differ(
            {rank: [self._sites(one) for one in asked.stretches] for rank, asked in questions.items()}
        )
        here = Counter(one for threads in did.values() for sites in threads for one in pairwise(sites))
        elsewhere = self._all - here
        found = {}
        for rank, asked in questions.items():
            said = [*_too_many(did[rank], asked.made, elsewhere), *_left_out(did[rank], asked.others, elsewhere)]
            if said:
                found[rank] = said[0]
        return found

    def _sites(self, stretch: Stretch) -> list[str]:
        rank, thread, step, first, last = stretch
        some = self._run.journals[rank][first : None if last is None else last + 1]
        return [raw[SITE] for raw in some if (raw[THREAD], raw[STEP]) == (thread, step) and _counts(raw)]


def _from_where_they_differ(did: dict[int, list[list[str]]]) -> dict[int, list[list[str]]]:
    """The sites of each thread, from the last one before ranks differ."""
    begins = []
    for sites in zip(*did.values(), strict=True):
        columns = enumerate(zip(*sites, strict=False))
        same = next((at for at, column in columns if len(set(column)) > 1), min(map(len, sites)))
        begins.append(max(0, same - 1))
    return {rank: [sites[at:] for sites, at in zip(own, begins, strict=True)] for rank, own in did.items()}


def _too_many(threads: list[list[str]], made: str | None, elsewhere: Counter[Follows]) -> Iterator[str]:
    """Places with an additional call that other places do not have."""
    for sites in threads:
        for before, call, after in zip(sites, sites[1:], sites[2:], strict=False):
            usual = elsewhere[before, after]
            if call == made and usual and not (elsewhere[before, call] and elsewhere[call, after]):
                yield f"without this {call}, {after} follows {before} as in {counted(usual, 'other place')}"


def _left_out(threads: list[list[str]], others: Collection[str], elsewhere: Counter[Follows]) -> Iterator[str]:
    """Places where two ops are adjacent, while other places have a call between them."""
    for sites in threads:
        for before, after in pairwise(sites):
            for call in others:
                usual = min(elsewhere[before, call], elsewhere[call, after])
                if usual and not elsewhere[before, after]:
                    yield f"{call} comes between {before} and {after} in {counted(usual, 'other place')}"


def _threads(journal: list[RawRecord]) -> list[list[str]]:
    """The sites of each thread in each step."""
    threads: dict[tuple[str, int], list[str]] = {}
    for raw in journal:
        if _counts(raw):
            threads.setdefault((raw[THREAD], raw[STEP]), []).append(raw[SITE])
    return list(threads.values())


def _counts(raw: RawRecord) -> bool:
    return raw[KIND] not in SILENT and raw[KIND] != "raised"
