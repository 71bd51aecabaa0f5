"""Pasts: records the result of each await of each rank in a simulated run, so that each rank can run again alone.

    program = Recording([fresh() for rank in ranks], packages)
    run = backend.run_program(world, program, None)
    pasts = program.complete(run.journals, run.ends)

Each rank has its own instance of the program (`OneEach`). This module replaces the methods `learned` and `turn` of the
journals of such a run, so other runs have no additional cost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any

from numpy import ndarray

from dpsim.alone.past import Given, Past, ending, is_kill
from dpsim.backend.hosts.threads import ThreadProgram
from dpsim.backend.journal.journal import Journal
from dpsim.backend.journal.own_raise import breaks_off_rank
from dpsim.campaign.repeats import OneEach
from dpsim.contract.interface import Rank, Received
from dpsim.contract.program import Program
from dpsim.sim.calls.rank import SimRank
from dpsim.sim.hosts.threads import SimThread


class Recording(OneEach):
    """A program that records the awaits of its ranks. `pasts`: the records by rank."""

    def __init__(self, instances: Sequence[tuple[Program[Any], Any]], packages: Collection[str]) -> None:
        super().__init__(instances)
        self.pasts = [Past(rank) for rank in range(len(instances))]
        self._packages = packages

    async def run(self, rank: Rank, prepared: None) -> None:
        await self._watched(rank, super().run(rank, prepared))

    async def serve(self, rank: Rank, prepared: None) -> None:
        await self._watched(rank, super().serve(rank, prepared))

    def complete(self, journals: Sequence[Sequence[Any]], ends: Sequence[str]) -> list[Past]:
        """Returns the records of all ranks, once the run is over."""
        for past, journal, end in zip(self.pasts, journals, ends, strict=True):
            past.records = [*journal]
            past.cut = any(map(is_kill, journal)) or (past.end is None and end != "finished")
        return self.pasts

    async def _watched(self, rank: Rank, program: Coroutine[Any, Any, None]) -> None:
        assert isinstance(rank, SimRank)
        past, journal = self.pasts[rank.rank], rank.journal
        if rank.threads is None:
            _watch(journal, past)
        else:
            own = rank.threads.main.own_journal
            _watch(own, past)
            rank._begin = _watching_threads(rank, past)
        try:
            await program
        except BaseException as error:
            if breaks_off_rank(error, self._packages):
                past.end = ending(journal, error, self._packages)
            raise
        past.end = ending(journal, None, self._packages)


def _watching_threads(rank: SimRank, past: Past) -> Callable[..., Coroutine[Any, Any, None]]:
    """Returns a function that starts the threads of a rank and records the awaits of each."""
    begin, watched = rank._begin, set[str]()
    assert begin is not None

    def begin_watched(of: SimRank, thread: SimThread, program: ThreadProgram) -> Coroutine[Any, Any, None]:
        own = thread.host.own_journal
        if own.thread not in watched:
            watched.add(own.thread)
            _watch(own, past)

        async def noted(rank: Rank) -> None:
            past.turns.append((own.thread, None))
            await program(rank)

        return begin(of, thread, noted)

    return begin_watched


def _watch(journal: Journal, past: Past) -> None:
    """Records what the thread of this journal receives, and its turns."""
    given, thread = past.given[journal.thread], journal.thread
    learn, fail, turn = journal.learned, journal.failed, journal.turn

    def noted(one: Given) -> None:
        given.append(one)
        if turn is not None:
            past.turns.append((thread, None))

    def learned(site: str, ordinal: int, result: Any) -> None:
        value = result.copy() if isinstance(result, ndarray) else result
        if type(value) is Received:
            value = Received(value.source, value.array.copy())
        noted(Given(site, ordinal, value))
        learn(site, ordinal, result)

    def failed(site: str, ordinal: int, error: RuntimeError) -> None:
        noted(Given(site, ordinal, None, error))
        journal.__dict__["learned"] = learn
        try:
            fail(site, ordinal, error)
        finally:
            journal.__dict__["learned"] = learned

    def turned(site: str, ordinal: int) -> None:
        assert turn is not None
        try:
            turn(site, ordinal)
        except RuntimeError as error:
            past.turns.append((thread, error))
            raise
        past.turns.append((thread, None))

    journal.learned, journal.failed = learned, failed  # type: ignore[method-assign]
    if turn is not None:
        journal.turn = turned
