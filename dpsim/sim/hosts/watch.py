"""Whether a run makes progress: the watch reads all journals now and then, and ends a program that would run without
end.

The machine detects a hang exactly: nothing can happen any more. A program that runs without end is harder to detect.
The watch detects that for a long time each rank has only repeated itself (`dpsim.backend.journal.repetition`). Any
other record is progress, and restarts all counts.

* A get whose time-out has passed counts as a poll that found nothing.
* By host collectives with the same result, ranks agree that they have no work. If a rank only repeats these, the watch
  never ends the run for it, since the program may count them.
* A rank is *deaf* if it repeats itself without polling (it sleeps, it decides): no other rank can affect it. The watch
  ends the run after REPEATS such records. A rank with several threads is never deaf, since its threads share Python.
* A rank that polls may still receive an answer. The watch calls it endless only while no op under way can change an
  answer: no message, no kernel, no collective and no other rank. All ranks that still run then have to write REPEATS
  further records each (ASKS in untimed mode, where each poll is a choice). The last op may still answer, so half of
  these records have to follow the check that found nothing under way.

So the watch never calls a poll loop endless while its message is under way, however long a schedule delays the message.
After SAME steps without progress, it only cuts the run off (`still`). A loop that gives up earlier is not affected.

A run may also make progress without end. Then the watch stops it when the process has taken too much memory since the
run began. A record takes some 200 bytes, and a pending device op three times as many. In untimed mode each op stores
which ops came before it, so memory grows faster than the run. A bound on the number of records also stops the run. It
is equal on every machine, and in untimed mode the search tries no other schedule.

The journals call `look` at every 256th visit of a site (`dpsim.backend.journal.journal`), so an op costs one
comparison. `overtime` ends a loop that issues no op.

Prior art: SPIN's non-progress cycles. SPIN compares states, which a coroutine does not expose.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Container, Iterable, Sequence
from functools import cached_property

import simpy

from dpsim.backend.journal.repetition import Repetition
from dpsim.backend.journal.whereabouts import FEW, whereabouts
from dpsim.contract.schedule import CutOff, Outgrown
from dpsim.contract.words import counted
from dpsim.contract.world import Unended
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Death, Op
from dpsim.sim.hosts.host import Host

REPEATS = 100_000
ASKS = 1_000
"""Untimed mode: records per rank that still runs, two for a poll. The cost of their order grows with the square."""
SAME = 1_000
"""An untimed run ends after this number of steps that only repeat, if another op could happen."""
MOST_BYTES = 1_000_000_000
"""The process may take this many more bytes during a run."""
MOST_RECORDS = 10_000_000
MOST_UNTIMED = 1_000_000
LONG = 1_000
"""An event that waits for this number of choices is held back. In a run of less than 2,000 choices: for half of it."""
MEASURED = 8
"""The watch measures memory once in this number of looks, since that takes as long as three ops."""


class Endless(Exception):
    """These ranks only repeat themselves, and no op under way can change that."""

    def __init__(self, ranks: Sequence[int]) -> None:
        super().__init__(ranks)
        self.ranks = tuple(ranks)


class HeldBack:
    """Untimed: whether a schedule keeps an event waiting although it could happen.

        held.look(steps, [one, other])      # every LOOK_STEPS choices: the events that can happen now
        held.any                            # whether one of them has waited for 1,000 choices

    A schedule that keeps an event waiting, such as the arrival of a message, is unfair: hardware does not continue so.
    If a run that is cut off kept none waiting, the program had each event and does not end. So only such a run leaves a
    question about the program (`Exploration.unended`). A time-out under way is an event that waits: it passes only when
    nothing else can happen.

    Prior art: fair schedules in CHESS (Musuvathi and Qadeer, "Fair Stateless Model Checking", 2008).
    """

    def __init__(self) -> None:
        self._steps = 0
        self._since: dict[Op, int] = {}

    def look(self, steps: int, waiting: Iterable[Op]) -> None:
        """Notes the events that can happen now, after `steps` choices."""
        self._steps, self._since = steps, {op: self._since.get(op, steps) for op in waiting}

    @property
    def any(self) -> bool:
        """Whether the schedule held an event back, as of the last look."""
        long = min(LONG, self._steps // 2)
        return any(self._steps - since >= long for since in self._since.values())


class ProgressWatch:
    """The watch of one run. `tick` is called at every look; an exception from it ends the run. `waiters` returns the
    events by which the threads of a rank continue. `services`: the names of the services, which follow the ranks.
    """

    def __init__(
        self,
        machine: Machine,
        hosts: Sequence[Host],
        ends: Sequence[str],
        tick: Callable[[], None] | None,
        waiters: Callable[[int], Sequence[simpy.Event]],
        services: Sequence[str] = (),
    ) -> None:
        self._machine = machine
        self._ends = ends
        self._tick = tick
        self._waiters = waiters
        self._hosts = hosts
        self._services = services
        self._epoch = 0
        self._seen_epoch = -1
        self._stood_since = 0
        self._stood: set[Op] = set()  # the ops that were enabled then
        self._enough = REPEATS if machine.timed else ASKS
        self._most = MOST_RECORDS if machine.timed else MOST_UNTIMED
        self._looks = 0
        self._vain: dict[int, int] = {}  # repetitions of each rank when the watch first found nothing under way
        self._could: set[Op] = set()  # the ops enabled then: a schedule may delay those that still are
        self._began = 0  # bytes of the process at the first look
        self.held_back = HeldBack()

    @cached_property
    def _ranks(self) -> list[Repetition]:
        """Created at the first look; most runs end before."""
        return [Repetition(host.rank, host.records) for host in self._hosts]

    def look(self, rank: int) -> None:
        """Called by a journal now and then, while a rank runs. Raises Halt if the run has to end."""
        machine, own = self._machine, self._ranks[rank]
        try:
            if self._tick is not None:
                self._tick()
            if self._reads_on(own) and own.repeats >= self._enough // 2:
                ranks = self._deaf(own) or self._in_vain()
                if ranks:
                    raise Endless(ranks)
            if own.read * len(self._ranks) > self._most and self._records() > self._most:
                self._stop(f"{self._most:,} records")
            if not self._looks % MEASURED:
                self._measure()
            self._looks += 1
        except BaseException as error:
            raise machine.halt(error) from error

    def still(self, steps: int) -> None:
        """Called every LOOK_STEPS steps of an untimed run. Raises CutOff if the last SAME steps brought nothing new and
        another op could happen. If none could, the ranks reach ASKS repetitions, and the run is endless.
        """
        self.held_back.look(steps, possible(self._machine).union(self._machine.alarms.ahead()))
        if self._new():
            self._stood_since, self._stood = steps, set(self._machine.enabled)
        elif steps - self._stood_since >= SAME and (self._stood & possible(self._machine) or not self._alone(1)):
            raise CutOff(f"{counted(SAME, 'step')} that brought nothing new")

    def _new(self) -> bool:
        for one in self._ranks:
            self._reads_on(one)
        before, self._seen_epoch = self._seen_epoch, self._epoch
        return before != self._epoch

    def _records(self) -> int:
        return sum(len(one.records) for one in self._ranks)

    def _measure(self) -> None:
        now = occupied()
        self._began = self._began or now
        if now - self._began > MOST_BYTES:
            self._stop(f"{MOST_BYTES / 1e9:.1f} GB of memory")

    def _stop(self, bound: str) -> None:
        if not self._machine.timed:
            raise Outgrown(bound)
        raise Unended(
            f"the run did not end within {bound}, {self._records():,} records. Ranks make progress, and the run may "
            "have no end. If it has one, run fewer steps or requests. Each rank is here:\n"
            f"{whereabouts([one.records for one in self._ranks], FEW, self._services)}"
        )

    def _reads_on(self, one: Repetition) -> bool:
        """Reads the new records of a rank. Returns whether it has only repeated itself since any rank made progress."""
        if one.epoch != self._epoch:
            one.begin(self._epoch)
        elif not one.reads_on():
            self._epoch += 1
            one.begin(self._epoch)
        return one.repeats > 0

    def _deaf(self, own: Repetition) -> list[int]:
        deaf = own.repeats >= REPEATS and not self._asks(own) and not own.agreements
        return [own.rank] if deaf else []

    def _asks(self, one: Repetition) -> bool:
        """Other ranks can affect a rank that polls, or that has several threads, because threads share Python."""
        return bool(one.asks) or len(self._waiters(one.rank)) > 1

    def _in_vain(self) -> list[int]:
        epoch, half = self._epoch, self._enough // 2
        for one in self._ranks:
            self._reads_on(one)
        ranks = self._alone(half) if epoch == self._epoch else []
        repeats = {rank: self._ranks[rank].repeats for rank in ranks}
        if repeats.keys() != self._vain.keys() or any(repeats[rank] < self._vain[rank] for rank in ranks):
            self._vain, self._could = repeats, possible(self._machine)
        long = all(repeats[rank] >= max(self._enough, self._vain[rank] + half) for rank in ranks)
        return ranks if long and not self._could & possible(self._machine) else []

    def _alone(self, enough: int) -> list[int]:
        repeating = [one for one in self._ranks if one.repeats >= enough and self._ends[one.rank] == "blocked"]
        if not any(map(self._asks, repeating)):
            return []
        moving = {one.rank for one in repeating}
        machine, waiters = self._machine, {waiter for rank in moving for waiter in self._waiters(rank)}
        timed = (entry[-1] for entry in machine.env._queue)
        ahead = [*machine.env.due, *timed, *machine.enabled, *machine.alarms.ahead()]
        alone = all(one in waiters or (isinstance(one, Op) and self._is_of(one, moving)) for one in ahead)
        return sorted(moving) if alone else []

    def _is_of(self, op: Op, moving: Container[int]) -> bool:
        life = op.life
        if life is not None and (life in self._machine.dead or (life < 0 and ~life in moving)):
            return True
        return isinstance(op, Death) or (op.guard is not None and not op.guard.open())


def possible(machine: Machine) -> set[Op]:
    """Returns the enabled ops that will happen sooner or later, so no deaths and no ops whose guard is closed."""
    dead = machine.dead
    return {
        op
        for op in machine.enabled
        if not (isinstance(op, Death) or op.life in dead or (op.guard is not None and not op.guard.open()))
    }


def occupied() -> int:
    """Returns the bytes of memory of this process; if the system does not report that, the most that it ever had."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        try:
            from resource import RUSAGE_SELF, getrusage
        except ImportError:  # on this system only the bound on records applies
            return 0
        return getrusage(RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
