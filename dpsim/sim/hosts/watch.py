"""Whether a run makes progress: a look at all journals now and then, which ends a program that has no end.

The machine sees a hang exactly: nothing can move any more. A program that moves without end is harder to see. This
module sees that nothing has *changed* for long: no rank did anything but repeat itself. A poll, or a query of an event
or a flag, is a repetition if the place has had its outcome before. So is a decision with a value that was decided there
before. A sleep, a mark on a stream and a probe always are. All else is progress of any rank, and all counts begin anew.

* A get whose time-out has passed counts as a poll that found nothing.
* A host collective with a result that it had at this place before is a repetition: ranks poll, and agree that they have
  no work. A rank that only agrees may count its agreements, so the watch never calls it endless.
* A rank that repeats itself and asks for nothing (it sleeps, it decides) is *deaf*: no other rank can affect it. The
  watch ends the run after REPEATS such records. A rank with several threads is never deaf, since they share Python.
* A rank that asks may get an answer. The watch calls it endless only while no op under way can change an answer: no
  message, no kernel, no collective and no other rank. All ranks that still move then get REPEATS further records each
  (ASKS in untimed mode, since there every poll is a choice). The last op may still answer, so half of these records
  have to come after the look that found nothing under way.

So the watch never calls a poll loop endless while its message is under way, however long a schedule holds the message
back. It cuts such a run off after SAME steps without progress (`still`). A loop that gives up before is not affected.

A run without end that makes progress is stopped by the memory that the process has taken since the run began. A record
has some 200 bytes, and an op that waits on a device three times as many. The size of a message is up to its sender. In
untimed mode each op knows what came before it, so memory grows faster than the run. The number of records also stops
such a run; it is the same on every machine, and no other schedule is tried.

The journals call `look` at every 256th visit of a site (`dpsim.backend.journal.journal`), and know nothing else of this
watch. So an op costs one comparison. `overtime` ends a loop that issues no op.

Prior art: SPIN's non-progress cycles, which need the state that a coroutine does not show.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Container, Sequence
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
"""Records of each rank that moves, two for a poll. What the order of an untimed run costs grows with their square."""
SAME = 1_000
"""An untimed run ends after this number of steps that are repetition, where something else could happen."""
MOST_BYTES = 1_000_000_000
"""So much may the process grow in a run."""
MOST_RECORDS = 10_000_000
MOST_UNTIMED = 1_000_000
MEASURED = 8
"""The watch measures the memory at each look of this number, which takes as long as three ops."""


class Endless(Exception):
    """These ranks repeat themselves, and nothing can change that."""

    def __init__(self, ranks: Sequence[int]) -> None:
        super().__init__(ranks)
        self.ranks = tuple(ranks)


class ProgressWatch:
    """Of one run. `tick` is called at every look; what it raises ends the run. `waiters`: by what the threads of a rank
    go on.
    """

    def __init__(
        self,
        machine: Machine,
        hosts: Sequence[Host],
        ends: Sequence[str],
        tick: Callable[[], None] | None,
        waiters: Callable[[int], Sequence[simpy.Event]],
    ) -> None:
        self._machine = machine
        self._ends = ends
        self._tick = tick
        self._waiters = waiters
        self._hosts = hosts
        self._epoch = 0
        self._seen_epoch = -1
        self._stood_since = 0
        self._stood: set[Op] = set()  # what could happen then
        self._enough = REPEATS if machine.timed else ASKS
        self._most = MOST_RECORDS if machine.timed else MOST_UNTIMED
        self._looks = 0
        self._vain: dict[int, int] = {}  # since when nothing is under way: what each rank had repeated by then
        self._could: set[Op] = set()  # and what could happen; a schedule holds back what still can
        self._began = 0  # what the process occupied at the first look

    @cached_property
    def _ranks(self) -> list[Repetition]:
        """Made at the first look; most runs end before it."""
        return [Repetition(host.rank, host.records) for host in self._hosts]

    def look(self, rank: int) -> None:
        """A rank has gone on for a while. Raises Halt if this run has to end."""
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
        """An untimed run has made some more steps. Raises CutOff if the last SAME of them have brought nothing new, and
        something else could happen. Where nothing else can, the ranks reach their ASKS, and the run is endless.
        """
        if self._new():
            self._stood_since, self._stood = steps, set(self._machine.enabled)
        elif steps - self._stood_since >= SAME and (self._stood & self._enabled() or not self._alone(1)):
            raise CutOff(f"{counted(SAME, 'step')} that brought nothing new")

    def _new(self) -> bool:
        """Whether any rank made progress since this was last asked, which is so at first."""
        for one in self._ranks:
            self._reads_on(one)
        before, self._seen_epoch = self._seen_epoch, self._epoch
        return before != self._epoch

    def _records(self) -> int:
        return sum(len(one.records) for one in self._ranks)

    def _measure(self) -> None:
        """Stop the run if it has taken too much memory."""
        now = occupied()
        self._began = self._began or now
        if now - self._began > MOST_BYTES:
            self._stop(f"{MOST_BYTES / 1e9:.1f} GB of memory")

    def _stop(self, bound: str) -> None:
        if not self._machine.timed:
            raise Outgrown(bound)
        raise Unended(
            f"the run did not end within {bound}, {self._records():,} records; it gets on, and has no end in sight. If "
            "it has one, run fewer steps or requests. Ranks stand here:\n"
            f"{whereabouts([one.records for one in self._ranks], FEW)}"
        )

    def _reads_on(self, one: Repetition) -> bool:
        """Whether a rank has done nothing but repeat itself since any rank made progress."""
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
        """Whether what others do reaches a rank. Its own threads do in Python, where it may look at anything."""
        return bool(one.asks) or len(self._waiters(one.rank)) > 1

    def _in_vain(self) -> list[int]:
        """The ranks that ask in vain, if for long all that could happen was that they ask again."""
        epoch, half = self._epoch, self._enough // 2
        for one in self._ranks:
            self._reads_on(one)
        ranks = self._alone(half) if epoch == self._epoch else []
        repeats = {rank: self._ranks[rank].repeats for rank in ranks}
        if repeats.keys() != self._vain.keys() or any(repeats[rank] < self._vain[rank] for rank in ranks):
            self._vain, self._could = repeats, self._enabled()
        long = all(repeats[rank] >= max(self._enough, self._vain[rank] + half) for rank in ranks)
        return ranks if long and not self._could & self._enabled() else []

    def _enabled(self) -> set[Op]:
        """What can happen, but for what only may: a death, or an op that something else has to let happen."""
        dead = self._machine.dead
        return {
            op
            for op in self._machine.enabled
            if not (isinstance(op, Death) or op.life in dead or (op.guard is not None and not op.guard.open()))
        }

    def _alone(self, enough: int) -> list[int]:
        """The ranks that have repeated themselves `enough` times, if nothing but their next repetition can happen."""
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
        """Whether an op is a part of what these ranks repeat, or will not happen by itself."""
        life = op.life
        if life is not None and (life in self._machine.dead or (life < 0 and ~life in moving)):
            return True
        return isinstance(op, Death) or (op.guard is not None and not op.guard.open())


def occupied() -> int:
    """Bytes of memory that this process occupies; where the system does not say, the most that it ever did."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        try:
            from resource import RUSAGE_SELF, getrusage
        except ImportError:  # no bound but that of records
            return 0
        return getrusage(RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
