"""The commands `explore` and `replay`, behind the options: scenarios in, outcomes out, traces of failures on disk.

    outcomes = explore_files([("wake.yaml", scenario, base)], Options(jobs=2, seconds=60))

A failure's trace is written to a folder (`.dpsim` unless told otherwise), under the name of its scenario and its
fingerprint: the same failure is the same file, however often it is found. It holds the scenario and the schedule, so
`dpsim replay` needs nothing else.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import dpsim
from dpsim.exploration import Explored, Subject, explore_subject
from dpsim.parallel import explore_all
from dpsim.scenario import Scenario
from dpsim.trace import Schedule, write_trace


class Options(NamedTuple):
    """How to explore. `seconds`: for all scenarios together; None for no limit. `keep_going`: after a first failure."""

    strategy: str = "portfolio"
    schedules: int = 1_000
    seconds: float | None = None
    jobs: int = 1
    seed: int = 0
    keep_going: bool = False
    folder: Path = Path(".dpsim")


@dataclass
class Outcome:
    """A scenario and what became of it. `trace`: the file of its failure; `unwritten`: why there is none."""

    scenario: Scenario
    explored: Explored
    trace: Path | None = None
    unwritten: OSError | None = None


def explore_files(
    scenarios: Sequence[tuple[Scenario, Path | None]],
    options: Options,
    progress: Callable[[int, int | None], None] | None = None,
) -> list[Outcome]:
    """Explore scenarios, each given with the folder of its file. Raises as `explore_all` and `Subject.of` do."""
    subjects = [Subject.of(scenario, base) for scenario, base in scenarios]
    found = explore_all(
        subjects,
        options.strategy,
        jobs=options.jobs,
        schedules=options.schedules,
        seconds=options.seconds,
        seed=options.seed,
        stop_at_first=not options.keep_going,
        progress=None if progress is None else lambda parts: progress(sum(part.runs for part in parts), None),
    )
    return [kept(scenario, one, options.folder) for (scenario, _), one in zip(scenarios, found, strict=True)]


class Whole(NamedTuple):
    """Every scenario of a scope. `proven` of `total` were; `first`: the first that was violated."""

    total: int
    proven: int
    runs: int
    first: Outcome | None


def explore_whole(
    scenarios: Iterable[Scenario],
    total: int,
    options: Options,
    progress: Callable[[int, int | None], None] | None = None,
) -> Whole:
    """Explore every one, in order, up to the first that is violated."""
    done = proven = runs = 0
    for scenario in scenarios:
        explored = explore_subject(Subject.of(scenario), options.strategy, schedules=options.schedules)
        done += 1
        runs += explored.exploration.runs
        proven += explored.verdict == "proven"
        if explored.failure is not None:
            return Whole(done, proven, runs, kept(scenario, explored, options.folder))
        if progress is not None:
            progress(done, total)
    return Whole(done, proven, runs, None)


def kept(scenario: Scenario, explored: Explored, folder: Path) -> Outcome:
    """With the trace of its failure on disk."""
    if explored.failure is None or explored.run is None:
        return Outcome(scenario, explored)
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", scenario.name)
    path = folder / f"{name}-{explored.failure.fingerprint}.jsonl"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_trace(
            path,
            explored.run,
            scenario=scenario.model_dump(mode="json", by_alias=True),
            verdict="violated",
            klass=explored.findings[0].klass,
            versions={"dpsim": dpsim.__version__, "python": platform.python_version()},
            schedule=Schedule(explored.failure.by, tuple(explored.schedule)),
        )
    except OSError as error:  # the verdict is told all the same
        return Outcome(scenario, explored, None, error)
    return Outcome(scenario, explored, path)
