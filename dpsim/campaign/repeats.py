"""Repeats: repeats some runs of a search with fresh instances of the program. Both runs must have the same records.

    repeats = Repeats(subject)                      # before the first run
    repeats.before(number)                          # before run `number`, from 1
    unlike = repeats.after(run, schedule, failed)   # after it; None if it came out the same or was not repeated
    unlike = repeats.last()                         # at the end

A proof is valid only if the schedule alone decides what a program does. So the search repeats its first and last run,
run 4, run 16 and so on, and the first run of each failure.

A repetition strictly follows the schedule. The instances and what `prepare` returns are fresh, so a state that outlives
a run makes a difference. Each rank has its own instance, so ranks that communicate through `self` differ as well.
Clocks jump, and a generator without a seed draws other numbers (`dpsim.sim.hosts.outside`).

An unseeded random number is a finding even if both runs are equal, because two of them often agree. For draws of C
code, one more run shows which rank drew (`dpsim.campaign.draws`).

Prior art: FoundationDB runs a share of its seeds twice; Shuttle's `check_determinism`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from dpsim.backend.journal.call_site import own_code
from dpsim.campaign.draws import SHARED, SITE, Tracing, generators
from dpsim.campaign.subject import Subject, kept
from dpsim.checks import nondeterminism
from dpsim.checks.finding import Culprit, Finding, fact
from dpsim.checks.judge import switch_off
from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.schedule import OutOfTime, RunStopped, Unrepeatable
from dpsim.explore.strategies.replay import ScheduleReplay
from dpsim.sim.backend import SimRun
from dpsim.sim.hosts.outside import Touch

own_code(__name__)


READS = {
    "clock": fact("reads_clock"),
    "sleep": fact("sleeps"),
    "entropy": fact("draws_of_system"),
    "file": fact("uses_file"),
    "process": fact("starts_process"),
    "thread": fact("uses_threads"),
    "network": fact("opens_connection"),
    "setting": fact("changes_setting"),
}
"""What a rank does that touches something besides the contract, by kind (`dpsim.sim.hosts.sources`)."""


class Unlike(NamedTuple):
    """A run that differed from its repetition. `run` is None if it stopped the search."""

    finding: Finding
    run: SimRun | None
    schedule: list[str]


class OneEach(Program[None]):
    """A program with one instance, and one result of `prepare`, for each rank, as in separate processes."""

    def __init__(self, instances: Sequence[tuple[Program[Any], Any]]) -> None:
        self._instances = instances
        self.threaded = any(program.threaded for program, _ in instances)
        self.aborts = any(program.aborts for program, _ in instances)
        self.apart = any(program.apart for program, _ in instances)  # their processes are outside of the simulation
        self.ordered_by_objects = all(program.ordered_by_objects for program, _ in instances)
        self.ordered_by_flags = all(program.ordered_by_flags for program, _ in instances)

    async def run(self, rank: Rank, prepared: None) -> None:
        program, its = self._instances[rank.rank]
        await program.run(rank, its)

    async def serve(self, rank: Rank, prepared: None) -> None:
        program, its = self._instances[rank.rank]
        await program.serve(rank, its)


class Repeats:
    """The repetitions of one search. `made`: their number. `touched`: by their ranks. Calls `tick` now and then."""

    def __init__(self, subject: Subject, tick: Callable[[int], None] | None = None) -> None:
        off = switch_off([nondeterminism.of("")], subject.switched_off)[1] if subject.switched_off else {}
        self._wanted = not any(off.values())
        self.active = subject.repeats and self._wanted
        self.made = 0
        self.touched: dict[Touch, None] = {}
        self._subject = subject
        self._fresh = subject.fresh() if self.active else None
        self._tick = tick
        self._chosen = False
        self._before: tuple[Any, ...] | None = None
        self._last: tuple[SimRun, list[str]] | None = None

    def before(self, number: int) -> None:
        """Handles the beginning of a run."""
        self._chosen = self.active and number.bit_count() == 1 and number.bit_length() % 2 == 1  # 1, 4, 16, ...
        self._before = generators() if self._chosen else None

    def after(self, run: SimRun, schedule: list[str], failed: bool) -> Unlike | None:
        """Handles the end of a whole run. `failed`: it is the first run that shows a failure."""
        if not self.active:
            return Unlike(_draw(run), run, schedule) if run.drawn and self._wanted else None
        self._last = run, schedule
        return self.last() if self._chosen or failed or run.drawn else None

    def last(self) -> Unlike | None:
        """Repeats the last run, unless that was done."""
        if self._last is None:
            return None
        (run, schedule), self._last = self._last, None
        self.made += 1
        before, moved = self._before, list[int]()
        after = None if before is None else generators()
        journals, stopped = self._again(schedule)
        found = nondeterminism.check(run.journals, journals, stopped)
        if before is not None and after is not None and before != after:
            states = zip(before, after, generators(), strict=True)
            moved = [at for at, (first, second, third) in enumerate(states) if first != second != third]
        if run.drawn:
            draw = _draw(run)
        elif moved:
            tracing = Tracing(moved)
            self._again(schedule, strict=False, within=tracing)
            draw = nondeterminism.unseeded(fact("generator_of", module=SHARED[moved[0]]), tracing.culprit)
        elif found is None:
            return None
        else:
            both = dict.fromkeys((*run.touched, *self.touched))
            reads = [fact("touched", rank=one.rank, does=READS[one.what], where=one.where) for one in both]
            return Unlike(nondeterminism.explained(found, reads), run, schedule)
        if found is not None:
            draw = nondeterminism.with_seen(found, fact("without_seed", culprit=str(draw.culprit)))
        return Unlike(draw, run, schedule)

    def diverged(self, error: Unrepeatable, schedule: list[str]) -> Unlike:
        """Returns where two runs along a schedule differ that the search could not repeat."""
        (first, stopped), (second, again) = (self._again(schedule, strict=False) for _ in range(2))
        found = nondeterminism.check(first, second, stopped or again)
        if found is None or found.culprit is None:
            found = nondeterminism.of(fact("not_repeated", why=str(error)))
        return Unlike(found, None, schedule)

    def _again(
        self, schedule: Sequence[str], strict: bool = True, within: AbstractContextManager[Any] | None = None
    ) -> tuple[list[Any], str]:
        """Returns the journals of a run along a schedule `within` a context, and why it stopped early."""
        subject, world = self._subject, self._subject.world
        follow = ScheduleReplay(schedule, strict, longest=subject.longest)
        if self._fresh is None:  # both runs that are compared begin with it
            self._fresh = subject.fresh()
        follow.begin()
        program = OneEach([self._fresh() for _ in range(world.actors)])
        try:
            with within or nullcontext():
                run = kept(subject.backend(follow, elsewhere=strict).run_program(world, program, None, self._tick))
        except OutOfTime:
            raise
        except RunStopped as error:
            return error.run.journals, str(error)
        self.touched.update(dict.fromkeys(run.touched))  # fresh instances may hold clocks that the first one hid
        try:
            follow.end(True)
        except Unrepeatable as error:
            return run.journals, str(error)
        return run.journals, ""


def _draw(run: SimRun) -> Finding:
    place, generator = run.drawn[0]
    return nondeterminism.unseeded(generator, Culprit(place.rank, place.step, SITE, place.where))
