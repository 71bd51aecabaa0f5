"""Runs one rank alone: answers its awaits from the first run, and compares its records with those of the first run.

    difference = AloneRun(world, past, packages).go(program, prepared)      # None: the rank wrote the same records

The repeated run ends at the first record that differs, or at an await that the first run did not answer. The host
threads of the rank run in the order of the first run: each is a greenlet that stops before each of its calls. The
comparison is separate for each thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Coroutine, Generator
from typing import Any

from greenlet import getcurrent, greenlet

from dpsim.alone.machine import AloneRank, AloneThread
from dpsim.alone.messages import Differs
from dpsim.alone.past import Given, Past, alike, comparable, ending
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
"""The value that an await yields if the first run has no answer for it."""


class RunOver(BaseException):
    """Ends the repeated run: a record differs, or the first run has no record for comparison."""


class AloneRun:
    """The repeated run of one rank. `difference`: the first record that differs from the first run, else None."""

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
        """Runs the rank's program, and returns the first difference, or None."""
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
        try:
            event = coroutine.send(None)
            while event is not STANDS:
                event = coroutine.throw(ForeignAwait())
        except StopIteration:
            return True
        _standing.append(coroutine)
        return False

    def of(self, journal: Journal) -> Outcome:
        """Returns the outcome of the op that the journal wrote last: the value or the error of the first run."""
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
        """The search starts at the next answer of the thread, because a thread mostly awaits in order."""
        answers = self._answers.get(thread, [])
        for at in range(len(answers) - 1, -1, -1):
            if (answers[at].site, answers[at].ordinal) == (site, ordinal):
                return answers.pop(at)
        return None

    # ---- its threads

    def start(self, rank: AloneRank, thread: AloneThread, program: ThreadProgram) -> None:
        """Starts a host thread of the rank, which stops until the first run has its turn."""
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
        """Stops the running thread until its next turn in the first run."""
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
        if not alike(among, raw):
            self.difference = Differs(self._past.rank, at, among, raw)
            raise RunOver

    def _end(self) -> None:
        for thread, theirs in self._theirs.items():
            at = self._written[thread]
            if self.difference is None and at < len(theirs):
                self.difference = Differs(self._past.rank, at, theirs[at], None)


_standing: list[Any] = []
"""Coroutines at such an await. If Python closed one, its `finally` blocks would run code that is no part of the run."""
