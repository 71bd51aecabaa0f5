"""Groups of engines that tests run or explore: requests, calls of the first front end, and faulty pieces.

A piece is a class with one part of a program's decisions, which a test may replace.

    seen = run(group(dp=2, control=[(1, ("PAUSE", "keep")), (2, ("RESUME",))]))
    seen.forwards, seen.classes
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dpsim.campaign.subject import Subject
from dpsim.contract.ops import DECISION_VALUE, KIND, SITE
from dpsim.contract.schedule import Strategy
from dpsim.contract.world import Run, World
from dpsim.diagnose.words import text
from dpsim.explore import Budget, Exploration, Problem, explore, search
from dpsim.scenario import scenario_from
from dpsim.sim.backend import SimBackend
from dpsim.vllm.engine.forward import DUMMY, REAL
from dpsim.vllm.engine.frontend import Action, Plan
from dpsim.vllm.engine.pause import Control as EngineControl
from dpsim.vllm.programs.engine import EngineSetup
from tests.judged import judge

Control = Sequence[tuple[int, Action]]
WAITS: dict[type[Any], type[Any]] = {EngineControl: EngineControl}
"""A piece with which pauses wait for the device in every form. Before 0.33, new weights otherwise race with a
forward.
"""


def group(
    form: str = "0.33",
    dp: int = 2,
    tp: int = 1,
    pp: int = 1,
    requests: Sequence[Any] = (1,),
    control: Control = (),
    interval: int | None = None,
    frontends: int = 1,
    pieces: dict[type[Any], type[Any]] | None = None,
    swaps: dict[str, str] | None = None,
    **config: Any,
) -> Subject:
    """Returns a group of engines as a subject that can run or be explored.

    `requests` gives the steps of each request, or (steps, arrival), or (steps, arrival, abort), with times in ns.
    `control` gives the calls of the first front end and their times. `pieces` replaces classes by other ones. `swaps`
    names pieces as a scenario does.
    """
    config = {"parallel_rules": "0.33", "_api_process_count": frontends, **config}
    if interval is not None:
        config["dp_sync_interval"] = interval
    specs = []
    for one in requests:
        steps, arrival, *abort = one if isinstance(one, tuple) else (one, 0)
        specs.append({"arrival": f"{arrival}ns", "prompt_tokens": 1, "output_tokens": steps})
        specs[-1] |= {"abort": f"{abort[0]}ns"} if abort else {}
    raw = {
        "name": "group",
        "protocol": {"name": "engine", "form": form, "pieces": swaps or {}},
        "topology": {"data_parallel_size": dp, "tensor_parallel_size": tp, "pipeline_parallel_size": pp},
        "config": config,
        "workload": {"requests": specs},
    }
    subject = Subject.of(scenario_from(raw))
    setup: EngineSetup = subject.prepared
    plan = type("Scripted", ((pieces or {}).get(Plan, Plan),), {"control": tuple(control)} if control else {})
    setup = setup._replace(plan=plan(setup.plan.requests, frontends), pieces={**setup.pieces, **(pieces or {})})
    return replace(subject, prepared=setup, make=None)


@dataclass(frozen=True)
class Seen:
    """One run of a group: its world and its journals."""

    world: World
    run: Run

    def probes(self, rank: int) -> Counter[str]:
        return Counter(raw[SITE] for raw in self.run.journals[rank] if raw[KIND] == "probe")

    @property
    def forwards(self) -> list[tuple[int, int]]:
        """The numbers of real forwards and of dummies of each rank."""
        return [(self.probes(rank)[REAL], self.probes(rank)[DUMMY]) for rank in range(self.world.size)]

    def decided(self, label: str, rank: int = 0) -> list[Any]:
        journal = self.run.journals[rank]
        return [raw[DECISION_VALUE] for raw in journal if (raw[KIND], raw[SITE]) == ("decision", label)]

    @cached_property
    def findings(self) -> list[Any]:
        return judge(self.world, self.run)

    @property
    def classes(self) -> list[str]:
        return [finding.klass for finding in self.findings]


def run(subject: Subject) -> Seen:
    """Runs a group once on the simulator, with its clock."""
    return Seen(subject.world, SimBackend().run_program(subject.world, subject.program, subject.prepared))


def explored(subject: Subject, limit: int, by: str = "dpor", seed: int = 0) -> Exploration:
    """Explores all schedules of a group, or the first `limit`. Each finding of a check counts as a problem."""

    def once(strategy: Strategy) -> list[Problem]:
        _, findings = subject.run(strategy)
        return [Problem(finding.klass, text(finding.message)) for finding in findings]

    return explore(once, search(by, seed), Budget(limit))
