"""One rank runs again alone: its awaits are answered from its past, and its records are compared with those it wrote.

    difference = AloneRun(world, past, packages).go(program, prepared)      # None: the rank did the same

The run ends at the first record that differs, or where the past has no more answers. Threads of a rank go on in the
same order again. Each is a greenlet that stands still at its turns, as in the simulation. Records are compared thread
by thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Coroutine, Generator
from typing import Any

from greenlet import getcurrent, greenlet

from dpsim.alone.machine import AloneRank, AloneThread
from dpsim.alone.messages import Differs
from dpsim.alone.past import Given, Past, comparable, ending
from dpsim.backend.hosts.threads import ThreadProgram, front_of
from dpsim.backend.hosts.work import Outcome
from dpsim.backend.journal.injection import RankDied, RankHung
from dpsim.backend.journal.journal import Journal, RankJournal
from dpsim.backend.journal.misuse import ForeignAwait
from dpsim.backend.journal.own_raise import breaks_off_rank
from dpsim.contract.ops import MAIN, THREAD, RawRecord
from dpsim.contract.program import Program
from dpsim.contract.world import World

STANDS = object()
"""What a program yields if it awaits something that the past has no answer for."""


class RunOver(BaseException):
    """A record differs, or there is none to compare with: nothing more is of interest."""


class AloneRun:
    """The run of one rank. `difference`: the first record that is not as in the past."""

    def __init__(self, world: World, past: Past, packages: Collection[str]) -> None:
        self.difference: Differs | None = None
        self._past = past
        self._packages = packages
        self._theirs = past.by_thread()
        self._written: Counter[str] = Counter()
        self._answers: dict[str, list[Given]] = {name: given[::-1] for name, given in past.given.items()}
        self._shared = RankJournal(past.rank, world, self._write)
        self._threads: dict[str, greenlet] = {}
        self._journals: dict[str, Journal] = {}
        self._raises: BaseException | None = None
        self._hub = getcurrent()

    def go(self, program: Program[Any], prepared: Any) -> Differs | None:
        """Run the program of the rank."""
        shared = self._shared
        shared.aborts = program.aborts
        journal = shared.thread()
        if program.threaded:
            shared.front = front_of(journal)
            self._turns(journal)
        rank = AloneRank(shared.front or journal, self)
        try:
            if program.threaded:
                self._run_threads(lambda: self._main(rank, program, prepared))
            else:
                self._main(rank, program, prepared)
        except RunOver:
            pass
        self._end()
        return self.difference

    # ---- the program

    def _main(self, rank: AloneRank, program: Program[Any], prepared: Any) -> None:
        journal = self._shared.thread()
        journal.start_delay()
        try:
            if not self._drive(program.serve(rank, prepared) if rank.name else program.run(rank, prepared)):
                return
            self._compare(MAIN, ending(journal, None, self._packages))
        except (RankDied, RankHung):
            return
        except BaseException as error:
            if not breaks_off_rank(error, self._packages):
                raise
            self._compare(MAIN, ending(journal, error, self._packages))

    @staticmethod
    def _drive(coroutine: Coroutine[Any, Any, None]) -> bool:
        """Whether the coroutine has ended, and does not stand."""
        try:
            event = coroutine.send(None)
            while event is not STANDS:
                event = coroutine.throw(ForeignAwait())
        except StopIteration:
            return True
        _standing.append(coroutine)
        return False

    def of(self, journal: Journal) -> Outcome:
        site, ordinal = journal.site, journal.ordinal

        def outcome() -> Generator[Any, Any, Any]:
            if journal.turn is not None:
                self._point()
            given = self._given(journal.thread, site, ordinal)
            if given is None:
                yield STANDS
                raise RunOver
            if given.error is not None:
                raise given.error
            return given.value

        return outcome

    def _given(self, thread: str, site: str, ordinal: int) -> Given | None:
        """What that await returned. The next answer of the thread is asked first: most come in order."""
        answers = self._answers.get(thread, [])
        for at in range(len(answers) - 1, -1, -1):
            if (answers[at].site, answers[at].ordinal) == (site, ordinal):
                return answers.pop(at)
        return None

    # ---- its threads

    def start(self, rank: AloneRank, thread: AloneThread, program: ThreadProgram) -> None:
        journal = self._shared.thread(thread.name)
        journal.step = rank.step
        self._turns(journal)

        def live() -> None:
            journal.start_delay()
            error: BaseException | None = None
            try:
                if not self._drive(program(rank)):
                    return
            except (RankDied, RankHung):
                return
            except BaseException as raised:
                if not breaks_off_rank(raised, self._packages):
                    raise
                error = raised
            journal.ended(error, self._packages)
            thread.ended = True

        self._journals[thread.name] = journal
        self._threads[thread.name] = greenlet(live, self._hub)

    def _turns(self, journal: Journal) -> None:
        journal.turn, journal.looks = self._turn, True

    def _turn(self, site: str, ordinal: int) -> None:
        self._point()
        error, self._raises = self._raises, None
        if error is not None:
            raise error

    def _point(self) -> None:
        """The running thread stands until the past says that it went on."""
        self._hub.switch()

    def _run_threads(self, main: Any) -> None:
        self._journals[MAIN] = self._shared.thread()
        self._threads[MAIN] = greenlet(main, self._hub)
        for name, error in [(MAIN, None), *self._past.turns]:
            thread = self._threads.get(name)
            if thread is None or thread.dead:
                return
            self._raises = error
            assert self._shared.front is not None
            self._shared.front.__dict__ = self._journals[name].__dict__
            thread.switch()

    # ---- its records

    def _write(self, raw: RawRecord) -> None:
        for one in comparable((raw,)):
            self._compare(one[THREAD], one)

    def _compare(self, thread: str, raw: RawRecord) -> None:
        if self.difference is not None:
            raise RunOver
        at, theirs = self._written[thread], self._theirs.get(thread, [])
        self._written[thread] += 1
        if at >= len(theirs):
            if not self._past.cut:
                self.difference = Differs(self._past.rank, at, None, raw)
            raise RunOver
        among = theirs[at]
        if among != raw and repr(among) != repr(raw):  # nan is not equal to itself
            self.difference = Differs(self._past.rank, at, among, raw)
            raise RunOver

    def _end(self) -> None:
        """Nothing more comes: what the rank did among others, and not alone, is a difference."""
        for thread, theirs in self._theirs.items():
            at = self._written[thread]
            if self.difference is None and at < len(theirs):
                self.difference = Differs(self._past.rank, at, theirs[at], None)


_standing: list[Any] = []
"""Coroutines that stand. They are not closed, since what a program does when it is taken down is no part of its run."""
