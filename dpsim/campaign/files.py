"""Files: explores scenario files for the command `dpsim explore`, and writes a trace of each failure.

    outcomes = explore_files([("wake.yaml", scenario, base)], Options(jobs=2, seconds=60))

The name of a trace consists of the scenario and the fingerprint of the failure. So each failure has one file, however
often a search finds it. A search that finds another schedule first may write another file. A trace contains scenario
and schedule, so `dpsim replay` needs no other file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from dpsim.campaign.bounds import Bounds
from dpsim.campaign.explored import Explored
from dpsim.campaign.how_far import HowFar
from dpsim.campaign.processes import OtherMachines, explore_all
from dpsim.campaign.remote import Source
from dpsim.campaign.sameness import digest_of
from dpsim.campaign.subject import Subject
from dpsim.campaign.traces import write_judged
from dpsim.campaign.work import WorkFolder
from dpsim.scenario import Scenario
from dpsim.trace import Schedule, TraceError

SHARE = 16
"""Of this number of small worlds, one has repeated runs, beginning with the first."""


class Cluster(Protocol):
    """Other machines (`dpsim.campaign.ray_cluster`)."""

    @property
    def width(self) -> int:
        """The number of units that run at a time; 1 before the first call of `on`."""

    def on(self, sources: Sequence[Source]) -> OtherMachines:
        """Returns what executes the units of subjects there."""


class Options(NamedTuple):
    """How to explore. `seconds`: for all scenarios together; None for no limit. `work`: the folder of results.
    `cluster`: other machines. `bounds`: from the command line. `outcomes`: collect what ranks learn.
    """

    strategy: str = "portfolio"
    schedules: int = 1_000
    seconds: float | None = None
    jobs: int = 1
    seed: int = 0
    keep_going: bool = False
    folder: Path = Path(".dpsim")
    work: WorkFolder | None = None
    cluster: Cluster | None = None
    bounds: Bounds = Bounds()
    outcomes: bool = False


@dataclass
class Outcome:
    """A scenario and its result. `traces`: files of failures by fingerprint. `unwritten`: why a trace is missing."""

    scenario: Scenario
    explored: Explored
    traces: dict[str, Path]
    unwritten: OSError | TraceError | None = None


def explore_files(
    scenarios: Sequence[tuple[Scenario, Path | None]],
    options: Options,
    progress: Callable[[int, int | None], None] | None = None,
    watch: Callable[[HowFar], None] = lambda how_far: None,
) -> list[Outcome]:
    """Explores scenarios, each with the folder of its file. Raises like `explore_all` and `Subject.of`. `progress`
    receives the number of schedules so far, and `watch` the progress of the exploration.
    """
    found = explore_some(scenarios, options, options.seconds, progress, watch=watch)
    return [kept(scenario, one, options.folder) for (scenario, _), one in zip(scenarios, found, strict=True)]


def explore_some(
    scenarios: Sequence[tuple[Scenario, Path | None]],
    options: Options,
    seconds: float | None,
    progress: Callable[[int, int | None], None] | None = None,
    share: int = 1,
    start: int = 0,
    watch: Callable[[HowFar], None] = lambda how_far: None,
) -> list[Explored]:
    """Explores scenarios without writing traces. One of `share` has repeated runs; `start` scenarios were before these.
    The ranks of a scenario run alone if it is the only one.
    """
    return explore_all(
        [
            replace(
                Subject.of(scenario, base),
                repeats=number % share == 0,
                alone=len(scenarios) == share == 1,
                outcomes=options.outcomes,
            )
            for number, (scenario, base) in enumerate(scenarios, start)
        ],
        options.strategy,
        jobs=options.jobs,
        schedules=options.schedules,
        seconds=seconds,
        seed=options.seed,
        stop_at_first=not options.keep_going,
        progress=lambda runs: progress(runs, None) if progress is not None else None,
        watch=watch,
        elsewhere=None if options.cluster is None else options.cluster.on(_sources(scenarios, share, start)),
        store=None if options.work is None else options.work.of([digest_of(*one) for one in scenarios]),
    )


def _sources(scenarios: Sequence[tuple[Scenario, Path | None]], share: int, start: int) -> list[Source]:
    return [Source.of(*one, repeats=number % share == 0) for number, one in enumerate(scenarios, start)]


def kept(scenario: Scenario, explored: Explored, folder: Path) -> Outcome:
    """Returns the outcome of a scenario, and writes the traces of its failures."""
    outcome = Outcome(scenario, explored, {})
    for shown in explored.shown:
        failure = shown.failure
        if shown.run is None or (failure.problem.evidence is not None and not failure.in_time):
            continue  # a replay would not show this failure
        name = re.sub(r"[^A-Za-z0-9_.-]", "-", scenario.name)
        path = folder / f"{name}-{shown.failure.fingerprint}.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if path.is_symlink():  # do not overwrite the target of a link
                path.unlink()
            schedule = None if failure.in_time else Schedule(failure.by, tuple(shown.schedule))
            write_judged(path, shown.run, scenario, shown.failure.problem.klass, schedule)
        except (OSError, TraceError) as error:  # the command still reports the verdict
            outcome.unwritten = error
        else:
            outcome.traces[shown.failure.fingerprint] = path
    return outcome
