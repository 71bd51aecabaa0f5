"""Pasts: notes which pasts of ranks a search saw, and records a past, so that the rank can run again alone.

A *past* of a rank is what its awaits returned in a run, and what it did. A search notes a digest of each (`note`), and
the schedule of the first run that had it. A run along this schedule then records the results themselves:

    program = Recording([fresh() for rank in ranks], packages)
    run = backend.run_program(world, program, None)
    pasts = program.complete(run.journals, run.ends)
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from hashlib import blake2b
from typing import Any

from numpy import ndarray

from dpsim.alone.past import Given, Past, ending, is_kill
from dpsim.backend.hosts.threads import ThreadProgram
from dpsim.backend.journal.call_site import own_code
from dpsim.backend.journal.journal import Journal
from dpsim.backend.journal.own_raise import breaks_off_rank
from dpsim.campaign.repeats import OneEach
from dpsim.contract.interface import Rank, Received
from dpsim.contract.program import Program
from dpsim.sim.calls.rank import SimRank
from dpsim.sim.hosts.threads import SimThread

own_code(__name__)

KEPT, COUNTED = 2_000, 100_000
"""The largest number of pasts of one search whose schedules are kept, and the largest number that count."""
NOT_KEPT: Sequence[str] = ()


def note(seen: dict[bytes, Sequence[str]], journals: Sequence[Sequence[Any]], schedule: Sequence[str]) -> None:
    """Adds the pasts of a run that `seen` lacks, each with the schedule of the run."""
    add(seen, [(past_key(rank, journal), schedule) for rank, journal in enumerate(journals)])


def add(seen: dict[bytes, Sequence[str]], pasts: Iterable[tuple[bytes, Sequence[str]]]) -> None:
    """Adds the pasts that `seen` lacks, each with a schedule that has it."""
    for key, schedule in pasts:
        if len(seen) < COUNTED:
            seen.setdefault(key, schedule if len(seen) < KEPT else NOT_KEPT)


def past_key(rank: int, journal: Sequence[Any]) -> bytes:
    """Returns a digest of a rank's past, which is equal in every process. Its journal has the results of its awaits."""
    try:
        plain: Any = rank, journal
        data = marshal.dumps(plain, 2)  # later versions depend on which objects are identical
    except ValueError:  # a record has an object of another type
        data = repr((rank, journal)).encode()
    return blake2b(data, digest_size=16).digest()


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
            if end == "died":  # perhaps behind the last call of its program, which then did not happen
                past.end = None
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
    """Replaces the methods `learned`, `failed` and `turn` of this journal, so other runs have no additional cost."""
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
