"""Some runs of a search are made again, in a fresh instance of the program, and have to come out the same.

    repeats = Repeats(subject)                      # before the first run
    repeats.before(number)                          # before run `number`, from 1
    unlike = repeats.after(run, schedule, failed)   # after it; None if it came out the same or was not repeated
    unlike = repeats.last()                         # at the end

Repeated runs are the first, every one whose number is a power of four, the first of each failure, and the last. So a
world that has one schedule is run twice, and one of a thousand eight times. A repetition follows the first run's
schedule strictly. The instance is fresh, and so is what `prepare` made, so state that outlives a run shows as well as a
clock. Every rank gets a separate instance, as it would in a separate process. So ranks that talk through `self` and
tidy up behind them come out differently.

The search also finds random numbers at their source. A run that changes the generator of `random` or `numpy.random` and
does not seed it is a finding, however alike the two runs are. (After a run that seeds it, a second run leaves it as the
first did.) Otherwise a rank that leaves something out once in twenty runs would be found once in ten. One more run
along the schedule shows which rank drew. A generator of the program that takes its seed from the operating system is a
finding as well (`dpsim.campaign.draws`).

Prior art: FoundationDB runs a share of its seeds twice; Shuttle's `check_determinism`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from dpsim.campaign.draws import SHARED, Tracing, generators, unseeded
from dpsim.campaign.subject import Subject, kept
from dpsim.checks import nondeterminism
from dpsim.checks.finding import Finding
from dpsim.checks.judge import switch_off
from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.schedule import OutOfTime, RunStopped, Unrepeatable
from dpsim.contract.world import Run
from dpsim.explore.strategies.replay import ScheduleReplay


class Unlike(NamedTuple):
    """A run that came out differently when it was made again; its own run is None where a search was stopped by it."""

    finding: Finding
    run: Run | None
    schedule: list[str]


class OneEach(Program[None]):
    """A program with a separate instance for each rank, with what that prepared, as in a separate process."""

    def __init__(self, instances: Sequence[tuple[Program[Any], Any]]) -> None:
        self._instances = instances
        self.threaded = any(program.threaded for program, _ in instances)
        self.aborts = any(program.aborts for program, _ in instances)
        self.ordered_by_objects = all(program.ordered_by_objects for program, _ in instances)
        self.ordered_by_flags = all(program.ordered_by_flags for program, _ in instances)

    async def run(self, rank: Rank, prepared: None) -> None:
        program, its = self._instances[rank.rank]
        await program.run(rank, its)

    async def serve(self, rank: Rank, prepared: None) -> None:
        program, its = self._instances[rank.rank]
        await program.serve(rank, its)


class Repeats:
    """Of one search. `made`: how many runs were repeated. `tick` is called now and then within a run."""

    def __init__(self, subject: Subject, tick: Callable[[int], None] | None = None) -> None:
        off = switch_off([nondeterminism.of("")], subject.switched_off)[1] if subject.switched_off else {}
        self.active = subject.repeats and not any(off.values())
        self.made = 0
        self._subject = subject
        self._fresh = subject.fresh() if self.active else None
        self._tick = tick
        self._chosen = False
        self._drawn: tuple[Any, ...] | None = None
        self._last: tuple[Run, list[str]] | None = None

    def before(self, number: int) -> None:
        """A run begins."""
        self._chosen = self.active and number.bit_count() == 1 and number.bit_length() % 2 == 1  # 1, 4, 16, ...
        self._drawn = generators() if self._chosen else None

    def after(self, run: Run, schedule: list[str], failed: bool) -> Unlike | None:
        """A whole run has ended. `failed`: it is the first that shows a failure."""
        if self.active:
            self._last = run, schedule
        return self.last() if self._chosen or failed else None

    def last(self) -> Unlike | None:
        """Make the last run again, unless that was done."""
        if self._last is None:
            return None
        (run, schedule), self._last = self._last, None
        self.made += 1
        before, moved = self._drawn, list[int]()
        drawn = None if before is None else generators()
        with unseeded() as taken:
            journals, stopped = self._again(schedule)
        found = nondeterminism.check(run.journals, journals, stopped)
        if before is not None and drawn is not None and before != drawn:
            states = zip(before, drawn, generators(), strict=True)
            moved = [at for at, (first, second, third) in enumerate(states) if first != second != third]
        if moved:
            tracing = Tracing(moved)
            self._again(schedule, strict=False, within=tracing)
            draw = nondeterminism.unseeded(f"the generator of {SHARED[moved[0]]}", tracing.culprit)
        elif taken:
            draw = nondeterminism.unseeded("a generator of the program", taken[0])
        else:
            return None if found is None else Unlike(found, run, schedule)
        if found is not None:
            draw = nondeterminism.with_seen(found, f"{draw.culprit} without a seed")
        return Unlike(draw, run, schedule)

    def diverged(self, error: Unrepeatable, schedule: list[str]) -> Unlike:
        """The search reached a schedule that it could not repeat: where two runs along it differ, if these do."""
        (first, stopped), (second, again) = (self._again(schedule, strict=False) for _ in range(2))
        found = nondeterminism.check(first, second, stopped or again)
        if found is None or found.culprit is None:
            found = nondeterminism.of(f"a schedule could not be repeated: {error}")
        return Unlike(found, None, schedule)

    def _again(
        self, schedule: Sequence[str], strict: bool = True, within: AbstractContextManager[Any] | None = None
    ) -> tuple[list[Any], str]:
        """The journals of a run along a schedule, and why it was stopped. `within`: what lasts as long as the run."""
        subject, world = self._subject, self._subject.world
        follow = ScheduleReplay(schedule, strict, longest=subject.longest)
        if self._fresh is None:  # only to tell two runs from each other, and they begin alike
            self._fresh = subject.fresh()
        follow.begin()
        program = OneEach([self._fresh() for _ in range(world.actors)])
        try:
            with within or nullcontext():
                run = kept(subject.backend(follow).run_program(world, program, None, self._tick))
        except OutOfTime:
            raise
        except RunStopped as error:
            return error.run.journals, str(error)
        try:
            follow.end(True)
        except Unrepeatable as error:
            return run.journals, str(error)
        return run.journals, ""
