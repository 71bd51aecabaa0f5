"""Runs and explores whole engines, with requests, orders of the first front end, and faulty pieces.

seen = run(whole(dp=2, requests=[request(5, 3)], control=[(1, ("PAUSE", "keep")), (2, ("RESUME",))]))
seen.classes, seen.forwards
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dpsim.campaign.subject import Subject
from dpsim.contract.ops import ADDRESS, DECISION_VALUE, KIND, SITE, RawRecord
from dpsim.contract.schedule import Strategy
from dpsim.contract.world import Run, World
from dpsim.diagnose.words import text
from dpsim.explore import Budget, Exploration, Problem, explore, search
from dpsim.scenario import Scenario, scenario_from
from dpsim.sim.backend import SimBackend
from dpsim.vllm.engine.forward import DUMMY, REAL
from dpsim.vllm.engine.frontend import Action, Plan
from dpsim.vllm.releases import REPAIRED
from tests.judged import judge
from tests.records import unplaced

Control = Sequence[tuple[int, Action]]
EAGER: dict[str, Any] = {"cudagraph_mode": "NONE"}
"""A configuration without CUDA graphs, which gives the smallest forward."""


def request(prompt: int, output: int, arrival: int = 0, abort: int | None = None) -> dict[str, Any]:
    """Returns a request. Times are in ns."""
    made = {"arrival": f"{arrival}ns", "prompt_tokens": prompt, "output_tokens": output}
    return made | ({} if abort is None else {"abort": f"{abort}ns"})


def scenario(
    requests: Sequence[dict[str, Any]],
    protocol: str = "whole_engine_dp",
    form: str | None = None,
    dp: int = 2,
    pp: int = 1,
    tp: int = 1,
    interval: int = 2,
    frontends: int = 1,
    swaps: dict[str, str] | None = None,
    allow_refused: bool = False,
    **config: Any,
) -> Scenario:
    """Returns a scenario of whole engines. `swaps`: forms of pieces, by name."""
    more = {"parallel_rules": "0.33", "dp_sync_interval": interval, "_api_process_count": frontends}
    if form in (None, "current") and protocol == "whole_engine" and "num_speculative_tokens" in config:
        swaps = {"tokens": REPAIRED.name} | (swaps or {})  # 0.33 paces drafts only with asynchronous scheduling
    chosen: dict[str, Any] = {"name": protocol} | ({} if form is None else {"form": form})
    if form == "source":
        swaps = {"config": "0.33"} | (swaps or {})  # else the sync interval is always 32
    chosen |= ({"pieces": swaps} if swaps else {}) | ({"allow_refused": True} if allow_refused else {})
    return scenario_from(
        {
            "name": "whole",
            "protocol": chosen,
            "topology": {"data_parallel_size": dp, "pipeline_parallel_size": pp, "tensor_parallel_size": tp},
            "config": more | config,
            "workload": {"requests": list(requests)},
        }
    )


def whole(
    requests: Sequence[dict[str, Any]],
    control: Control = (),
    pieces: dict[type[Any], type[Any]] | None = None,
    **settings: Any,
) -> Subject:
    """Returns the world to run. `control`: orders of the first front end; `pieces`: replacements of classes."""
    subject = Subject.of(scenario(requests, **settings))
    if not control and not pieces:
        return subject
    setup, swapped = subject.prepared, pieces or {}
    plan = type("Scripted", (Plan,), {"control": tuple(control)})
    frontends = setup.engine.layout.frontends
    engine = setup.engine._replace(plan=plan(setup.requests, frontends), pieces={**setup.engine.pieces, **swapped})
    return replace(subject, prepared=setup._replace(engine=engine, pieces={**setup.pieces, **swapped}), make=None)


@dataclass(frozen=True)
class Seen:
    """One run of a world, with its findings."""

    world: World
    run: Run

    def probes(self, rank: int) -> Counter[str]:
        return Counter(raw[SITE] for raw in self.run.journals[rank] if raw[KIND] == "probe")

    @property
    def forwards(self) -> list[tuple[int, int]]:
        """The number of forwards with tokens and of dummies, for each actor."""
        return [(self.probes(rank)[REAL], self.probes(rank)[DUMMY]) for rank in range(self.world.actors)]

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
    """Runs the world once, with simulated time."""
    return Seen(subject.world, SimBackend().run_program(subject.world, subject.program, subject.prepared))


def explored(subject: Subject, limit: int, by: str = "dpor") -> Exploration:
    """Explores all schedules up to `limit`. Each finding is a problem."""

    def once(strategy: Strategy) -> list[Problem]:
        _, findings = subject.run(strategy)
        return [Problem(finding.klass, text(finding.message)) for finding in findings]

    return explore(once, search(by, 0), Budget(limit))


def computed(journal: Sequence[RawRecord]) -> list[RawRecord]:
    """Returns an actor's records without its messages, because their order of arrival is a race."""
    mail = {raw[ADDRESS] for raw in journal if raw[KIND] == "take"}
    return [raw for raw in unplaced(journal) if raw[KIND] not in ("post", "take") and raw[ADDRESS] not in mail]
