"""Host threads of a real rank: threads of the worker's process, each with a separate journal and waits.

A host thread drives its coroutine by one `send(None)`, as main does: all calls of the contract block. If the program
declares `threaded = True`, its threads share these objects; other ranks have plain ones:

    journal     a front, which acts as the journal of the calling thread (`issuing.OwnJournal`)
    calls       each is one step for the rank's other threads (`issuing.guarded`)
    records     one after the other into one file (`issuing.one_by_one`)
    patience    that of the calling thread: every wait checks whether the rank is over (`OwnPatience`)

A rank is over when main has ended and has waited for the others. It is also over when main raises, or when any thread
waits for something that never happens. Then the other threads write no more records, and stop at their next call or
wait. If a thread does not stop, because it waits by means of Python or runs without end, the process is spoiled
(`ThreadedRank.stop`).

    rank = threaded_rank(0, world, file.write, belongings)
    drive(program.run(rank, prepared))
    rank.all_over()                         # raises the error of a thread that no thread has joined
    rank.stop(2.0)                          # whether all threads have ended
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Generator
from contextlib import AbstractContextManager
from typing import Any

from dpsim.backend.hosts.threads import JournaledThread, ThreadProgram
from dpsim.backend.hosts.work import Outcome
from dpsim.backend.journal.call_site import is_library, is_own_code, place_in
from dpsim.backend.journal.injection import RankDied, RankHung
from dpsim.backend.journal.journal import Journal, RankJournal
from dpsim.backend.journal.misuse import ForeignAwait
from dpsim.backend.journal.trouble import trouble
from dpsim.contract import registry
from dpsim.contract.ops import MAIN, RawRecord
from dpsim.contract.world import World
from real.belongings import Belongings
from real.issuing import ISSUING, OwnJournal, guarded, one_by_one
from real.journal_file import NoJournal
from real.pauses import pauses_of
from real.rank import RealRank
from real.stores import RealStore
from real.turns import turns_of
from real.waiting import BRIEF_NS, GLANCE_SECONDS, SPIN_NS, Dismissed, Patience, Unfinished, cores


def drive(program: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine that does not suspend. If it suspends, it gets a ForeignAwait where it awaits."""
    try:
        program.send(None)
        while True:
            program.throw(ForeignAwait())
    except StopIteration:
        return


class Over(threading.Event):
    """Set when the rank is over, or when the parent has given up the run."""

    def __init__(self, give_up: threading.Event) -> None:
        super().__init__()
        self._give_up = give_up

    def is_set(self) -> bool:
        return super().is_set() or self._give_up.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.is_set():
            rest = GLANCE_SECONDS if deadline is None else min(GLANCE_SECONDS, deadline - time.monotonic())
            if rest <= 0:
                return False
            super().wait(rest)
        return True


class OwnPatience(threading.local, Patience):
    """How the calling thread waits, and for how long it has waited. All waits poll, so that each ends when the rank
    does. Between two polls other threads of the process may run. `polling`: the block in which a thread may query a
    device.
    """

    def __init__(
        self,
        over: Over,
        dismissed: threading.Event,
        crowded: bool,
        polling: Callable[[], AbstractContextManager[object]],
    ) -> None:
        """Called once in each thread, with the same arguments."""
        super().__init__(over, True, dismissed, crowded)
        self._polling = polling

    def until(self, ready: Callable[[], bool]) -> None:
        now = time.perf_counter_ns
        start = now()
        try:
            with self._polling():
                while not ready():
                    self.check()
                    passed = now() - start
                    time.sleep(0 if passed < SPIN_NS else 20e-6 if passed < BRIEF_NS else 500e-6)
        finally:
            self.waited_ns += now() - start

    def ask(self, ready: Callable[[], bool]) -> bool:
        with self._polling():
            return super().ask(ready)


class RealThread(JournaledThread):
    """A thread of the process. `done`: it has ended. `error`: its exception. `left`: the exception by which the run
    ended it.
    """

    __slots__ = ("_rank", "done", "error", "host", "left", "message", "own_journal")

    def __init__(self, rank: ThreadedRank, name: str, own: Journal) -> None:
        super().__init__(rank.journal, name)
        self._rank = rank
        self.own_journal = own
        self.done = threading.Event()
        self.error: BaseException | None = None
        self.left: type[BaseException] | None = None
        self.message = ""
        self.host: threading.Thread

    @property
    def over(self) -> bool:
        return self.done.is_set()

    def wait(self) -> None:
        """Waits until the thread has ended. Raises `left`."""
        self._rank.patience.event(self.done)
        if self.left is not None:
            raise self.left

    def _join(self) -> Outcome:
        def outcome() -> Generator[Any, Any, str | None]:
            self.wait()
            self.noticed = True
            return self.message or None
            yield

        return outcome


class ThreadedRank(RealRank):
    """A rank whose program may start threads. Use it only guarded (`real.issuing`)."""

    __slots__ = ("_all", "_front", "_over", "lacked")

    lacked: str

    def __init__(self, front: OwnJournal, of: Belongings, patience: OwnPatience, over: Over, size: int) -> None:
        super().__init__(front, of.device, of.groups, patience, of.mail, size)
        self._front = front
        self._over = over
        self._all: list[RealThread] = []
        self.lacked = ""

    def all_over(self) -> None:
        for thread in self._all:  # the list may grow meanwhile
            if not thread.noticed:
                thread.wait()
        for thread in self._all:
            if thread.error is not None and not thread.noticed:
                raise thread.error

    def journal_of(self, error: BaseException) -> Journal:
        return next((one.own_journal for one in self._all if one.error is error and not one.noticed), self.journal)

    def cut(self) -> None:
        self._over.set()

    def stop(self, seconds: float) -> bool:
        self.cut()
        deadline = time.monotonic() + seconds
        for thread in self._all:
            thread.host.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.host.is_alive() for thread in self._all)

    def handed_out(self, store: RealStore) -> RealStore:
        return guarded(store)

    def _start(self, name: str, program: ThreadProgram) -> JournaledThread:
        own = self.journal.shared.thread(name)
        own.step = self.journal.step
        thread = RealThread(self, name, own)
        thread.host = threading.Thread(target=self._live, args=(thread, program), name=name, daemon=True)
        thread.host.start()
        self._all.append(thread)
        return thread

    def _live(self, thread: RealThread, program: ThreadProgram) -> None:
        front = self._front
        front.enter(thread.own_journal)
        try:
            thread.error = self._drive(program)
            if thread.error is not None:
                self.lacked = self.lacked or trouble(thread.error)
            with ISSUING:
                thread.message = front.ended(thread.error, registry.packages())
                if front.turns is not None:
                    front.turns.ends()
            if self.lacked:
                self._over.set()
        except RankDied:
            os.kill(os.getpid(), signal.SIGKILL)
        except BaseException as left:  # Dismissed, Unfinished, RankHung, NoJournal
            thread.left = Dismissed if isinstance(left, Dismissed) else Unfinished
            if thread.left is Unfinished:
                self._over.set()
        finally:
            front.leave(thread.own_journal)
            thread.done.set()

    def _drive(self, program: ThreadProgram) -> BaseException | None:
        try:
            with self._device.thread():
                self.patience.sleep(self._front.start_delay())
                self._front.starts()
                drive(program(self))
        except (RankDied, RankHung, Unfinished, Dismissed, NoJournal):
            raise
        except BaseException as error:
            if self._over.is_set():  # the error may be a consequence of that
                raise Unfinished from error
            return error
        return None


def thread_states(packages: Collection[str]) -> list[str]:
    """Returns, for each thread of this process that runs a program, main first: its name and the program's innermost
    line.
    """
    frames, found = sys._current_frames(), list[str]()
    del frames[threading.get_ident()]  # this frame refers to the dictionary, so a cycle would keep all frames
    for one in threading.enumerate():
        frame = frames.get(one.ident or 0)
        while frame is not None and (is_own_code(frame) or is_library(frame, packages)):
            frame = frame.f_back
        if frame is not None and frame.f_globals.get("__name__") == "__main__":  # of the forking process
            continue
        if frame is not None:
            name = MAIN if one is threading.main_thread() else one.name
            found.append(f"{name} at {place_in(frame.f_globals.get('__name__', '?'), frame.f_code, frame.f_lineno)}")
    return found


def threaded_rank(number: int, world: World, write: Callable[[RawRecord], None], of: Belongings) -> RealRank:
    """Returns a rank for a program with `threaded = True`; the calling thread is its main."""
    over = Over(of.give_up)
    shared = RankJournal(number, world, one_by_one(write, over))
    patience = OwnPatience(over, of.dismissed, world.actors > cores(), of.device.polling)
    front = OwnJournal(shared, turns_of(world, number, patience), pauses_of(world, number))
    shared.front, shared.issuing, shared.aborts = front, ISSUING, of.aborts
    return guarded(ThreadedRank(front, of, patience, over, world.actors))
