"""Deepening: explores within bounds, first with none of each bounded event, then with at most one, and so on.

    bounds = Bounds(late_deliveries=2, deaths=1)
    explore_each([(scenario, base)], options._replace(bounds=bounds))
    "bounded: holds in every schedule with at most 2 late deliveries and at most 1 death"

So if the time does not suffice, the verdict is a proof for the last complete level. These events can be bounded:

* preemptions and late deliveries: steps of a schedule (`dpsim.explore.strategies.within`);
* deaths: the faults `kill` and `die`. At most N means that each choice of up to N of them is planted;
* early timeouts, which expire although the awaited event could still happen (`limits.early_timeouts`).

If no bound excludes any schedule, the scenario is proven. The count of distinct schedules has those of all levels once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from dpsim.campaign import files
from dpsim.campaign.assumptions.facts import TIMEOUT
from dpsim.campaign.bounds import Bounds
from dpsim.campaign.explored import Explored
from dpsim.campaign.files import Options, Outcome
from dpsim.campaign.how_far import HowFar
from dpsim.campaign.interrupts import Done, done_before, with_done
from dpsim.campaign.subject import Subject
from dpsim.campaign.units import join
from dpsim.explore import Exploration
from dpsim.scenario import Scenario, scenario_from

MORTAL = ("kill", "die")


def explore_each(
    scenarios: Sequence[tuple[Scenario, Path | None]],
    options: Options,
    progress: Callable[[int, int | None], None] | None = None,
    watch: Callable[[HowFar], None] = lambda how_far: None,
) -> list[Outcome]:
    """Explores scenarios like `explore_files`. Scenarios with bounds are explored one after another, level by level."""
    end = None if options.seconds is None else time.monotonic() + options.seconds
    bounds_of_each = [Bounds.of(scenario, options.bounds) for scenario, _ in scenarios]
    if not any(one.binds for one in bounds_of_each):
        return files.explore_files(scenarios, options, progress, watch)
    outcomes, before = [], 0
    for (scenario, base), bounds in zip(scenarios, bounds_of_each, strict=True):
        left = options._replace(seconds=None if end is None else end - time.monotonic())
        if bounds.binds:
            world, explored = _Levels(scenario, base, bounds, left, progress, before).explore()
            outcomes.append(files.kept(world, explored, options.folder))
        else:
            outcomes += files.explore_files([(scenario, base)], left, progress)
        before += outcomes[-1].explored.exploration.runs
    return outcomes


def explore_bounded(
    scenario: Scenario,
    base: Path | None = None,
    options: Options = Options(),  # noqa: B008  # immutable
) -> tuple[Scenario, Explored] | None:
    """Explores a scenario whose limits contain bounds, level by level, and writes no traces. Returns the scenario, or
    its failing variant with fewer deaths, and the result; None without bounds. Raises ValueError for a strategy that
    samples.
    """
    bounds = Bounds.of(scenario, options.bounds)
    if not bounds.binds:
        return None
    if options.strategy not in ("portfolio", "dpor"):
        raise ValueError(f"{scenario.name}: its limits bound a search of all schedules, and {options.strategy} samples")
    return _Levels(scenario, base, bounds, options, None, 0).explore()


@dataclass
class _Levels:
    """The levels of one scenario. `before` is the number of schedules of other scenarios, for the progress."""

    scenario: Scenario
    base: Path | None
    bounds: Bounds
    options: Options
    progress: Callable[[int, int | None], None] | None
    before: int
    total: Exploration = field(default_factory=Exploration)
    last: Explored | None = None
    whole: Bounds = Bounds(early_timeouts=0)  # noqa: RUF009  # immutable
    """The widest level of which every schedule was tried. What the verdict assumes is true of its worlds."""

    def explore(self) -> tuple[Scenario, Explored]:
        """Returns the failing variant of the scenario, or else the scenario; and the result."""
        start = time.monotonic()
        try:
            for number in range(self.bounds.most + 1):
                level = self.bounds.at(number)
                self.total.unfinished = str(level)
                seconds = self.options.seconds
                end = None if seconds is None else start + seconds
                failed = self._level(level, end)
                if failed is not None:
                    return failed
                if self.total.unfinished or self.total.verdict in ("proven", "vacuous"):
                    break
        except KeyboardInterrupt as error:
            done = done_before(error)
            with_done(error, Done(done.schedules + self.before + self.total.runs, done.failures, polls=done.polls))
            raise
        subject = Subject.of(_changed(self.scenario, self._limits(self.whole)), self.base)
        explored = Explored(subject, self.total)
        if self.last is not None:
            explored.looked = self.last.looked
        return self.scenario, explored

    def _level(self, level: Bounds, end: float | None) -> tuple[Scenario, Explored] | None:
        """Explores each variant of the scenario at a level. Returns the first one that fails or is lost, or None."""
        verdicts = []
        for world in self._worlds(level):
            left = self.options.schedules - self.total.runs
            seconds = None if end is None else end - time.monotonic()
            if left <= 0 or (seconds is not None and seconds <= 0):
                return None
            found = self._search(world, level, left, seconds)
            verdicts.append(found.verdict)
            if found.exploration.failures or found.exploration.lost:
                join(self.total, found.exploration)
                self.total.classes |= found.exploration.classes
                self.total.verdict = found.exploration.verdict
                self.total.unfinished = ""
                return world, replace(found, exploration=self.total)
            self._add(found)
            if found.verdict == "sampled":
                return None
        self._conclude(level, verdicts)
        return None

    def _conclude(self, level: Bounds, verdicts: Sequence[str]) -> None:
        self.whole = level
        self.total.within, self.total.unfinished, self.total.verdict = str(level), "", "bounded"
        if self.total.vacuous:
            self.total.verdict = "vacuous"
        elif all(one == "proven" for one in verdicts) and not self._leaves_out(level):
            self.total.verdict = "proven"

    def _leaves_out(self, level: Bounds) -> bool:
        """The search itself reports excluded schedules, so only deaths and early timeouts count here."""
        deaths = level.deaths is not None and level.deaths < len(_mortal(self.scenario))
        return deaths or (level.early_timeouts is not None and TIMEOUT in self.total.did)

    def _add(self, found: Explored) -> None:
        join(self.total, found.exploration)
        self.total.classes |= found.exploration.classes
        self.last = found

    def _search(self, world: Scenario, level: Bounds, left: int, seconds: float | None) -> Explored:
        done = self.before + self.total.runs

        def tell(runs: int, _: int | None) -> None:
            if self.progress is not None:
                self.progress(done + runs, None)

        options = self.options._replace(strategy=level.strategy, schedules=left)
        return files.explore_some([(world, self.base)], options, seconds, tell)[0]

    def _limits(self, level: Bounds) -> dict[str, Any]:
        if level.early_timeouts is None or self.bounds.early_timeouts is None:
            return {}
        return {"limits": self.scenario.limits.model_copy(update={"early_timeouts": level.early_timeouts})}

    def _worlds(self, level: Bounds) -> Iterator[Scenario]:
        """If only deaths are bounded, lower levels had the smaller choices."""
        changes = self._limits(level)
        if level.deaths is None:
            yield _changed(self.scenario, changes)
            return
        mortal = _mortal(self.scenario)
        most = min(level.deaths, len(mortal))
        alone = level == Bounds(deaths=level.deaths)
        for number in range(most if alone else 0, most + 1):
            for chosen in combinations(mortal, number):
                left_out = {*mortal} - {*chosen}
                faults = [one for at, one in enumerate(self.scenario.faults) if at not in left_out]
                yield _changed(self.scenario, {**changes, "faults": faults})


def _mortal(scenario: Scenario) -> list[int]:
    return [at for at, fault in enumerate(scenario.faults) if fault.kind in MORTAL]


def _changed(scenario: Scenario, changes: dict[str, Any]) -> Scenario:
    return scenario_from({**dict(scenario), **changes}) if changes else scenario
