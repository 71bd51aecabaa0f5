"""The rows of 500 drawn worlds: 300 drawn programs that are explored, and 200 runs of scenarios with drawn faults.

A drawn program is one of the small programs of `tests/worlds`, such as `threads-7`: a maker and a seed. Some of its
schedules are explored, and the run of the first failure is explained like a trace (`dpsim explain`).

A swarm world, such as `late_rank-3`, is a scenario with one or two faults of any kind, which the swarm of that seed
plants (`dpsim.scenario.swarm`). The scenarios hold without faults and take little time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.subject import Subject
from dpsim.campaign.swarm import swarm_of
from dpsim.diagnose.dumps import text
from dpsim.diagnose.dumps.of_run import explained
from dpsim.diagnose.evidence import evidence
from dpsim.diagnose.words.told import told
from dpsim.scenario import dump_scenario, load_scenario
from dpsim.scenario.swarm import KINDS, Swarm
from dpsim.trace import digest
from tests.snapshot.files import SCENARIOS, culprit_of, run_file
from tests.snapshot.row import Found
from tests.worlds.case import Case
from tests.worlds.random_threads import threaded_case
from tests.worlds.random_world import any_source_case, asking_case, losing_case, random_case

MAKERS: dict[str, Callable[[int], Case]] = {
    "plain": random_case,
    "threads": threaded_case,
    "asking": asking_case,
    "any-source": any_source_case,
    "losing": losing_case,
}
OF_A_MAKER, OF_A_SCENARIO, SCHEDULES = 60, 20, 20

SCENARIOS_OF_SWARMS = (
    *("dp2_captured", "engine_abort", "engine_death", "engine_orphan", "engine_waves_late", "eplb_small", "eplb_steps"),
    *("killed_rank", "late_rank", "pp2_padded"),
)


def drawn() -> list[str]:
    """Returns the names of the drawn programs."""
    return [f"{maker}-{seed}" for maker in MAKERS for seed in range(OF_A_MAKER)]


def explore(name: str) -> Found:
    """Explores some schedules of a drawn program."""
    maker, _, seed = name.rpartition("-")
    case = MAKERS[maker](int(seed))
    subject = Subject(case.world, case.program, case.args, name=name)
    return of_explored(subject, explore_subject(subject, schedules=SCHEDULES))


def of_explored(subject: Subject, explored: Explored) -> Found:
    """Returns the failures of an exploration, the findings of the first one, and the explanation of its run."""
    found, run = explored.exploration, explored.shown[0].run if explored.shown else None
    stated: dict[str, Any] = {
        "verdict": str(explored.verdict),
        "class": explored.findings[0].klass if explored.findings else None,
        "schedules": [found.runs, len(found.classes), found.redundant, found.cut, found.unended],
        "assumes": [*explored.assumes],
        "failures": [
            {"class": one.problem.klass, "what": one.problem.what, "seen": one.seen, "schedule": [*one.normal]}
            for one in (shown.failure for shown in explored.shown)
        ],
        "findings": [
            {"check": one.check, "class": one.klass, "culprit": culprit_of([one]), "position": list(one.position)}
            | {"message": one.message, "details": one.details, "waits": one.waits, "ground": one.grounds}
            for one in (told(run, finding) for finding in explored.findings if run is not None)
        ],
        **evidence(run, explored.findings),
    }
    if run is None:
        return Found(stated)
    stated["explained"] = {"schema_version": 1} | text.as_json(explained(subject.world, run, explored.findings))
    return Found(stated, digest(run.journals), culprit_of(explored.findings))


def swarms() -> list[str]:
    """Returns the names of the swarm worlds."""
    return [f"{name}-{seed}" for name in SCENARIOS_OF_SWARMS for seed in range(OF_A_SCENARIO)]


def run(name: str) -> Found:
    """Runs a swarm world once, with the command."""
    base, _, seed = name.rpartition("-")
    scenario = load_scenario(SCENARIOS / f"{base}.yaml")
    healthy = scenario.model_copy(update={"faults": (), "delays": (), "messages": ()})
    [one] = swarm_of(healthy, SCENARIOS, Swarm(1, KINDS), int(seed))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.yaml"
        file.write_text(dump_scenario(one.scenario))
        found = run_file(file)
    return replace_text(found, folder)


def replace_text(found: Found, folder: str) -> Found:
    """Returns the same without the name of a temporary folder."""

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [without(inner) for inner in value]
        return value.replace(folder, "") if isinstance(value, str) else value

    return found._replace(json=without(found.json))
