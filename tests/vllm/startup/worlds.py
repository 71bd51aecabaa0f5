"""Runs and explores small starts, and returns what became of their participants.

seen = run(start(ports=[20004], form="0.14"))
seen.up, seen.serving, seen.errors
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dpsim.campaign.subject import Subject
from dpsim.contract.ops import KIND, LEARNED_OUTCOME, SITE, Raised, as_record
from dpsim.contract.schedule import Strategy
from dpsim.contract.world import Run, World
from dpsim.explore import Budget, Exploration, Problem, explore, search
from dpsim.scenario import Scenario, scenario_from
from dpsim.sim.backend import SimBackend
from dpsim.vllm.startup.participant import FAILED, SERVES, STOPPED

SMALL = {"max_num_batched_tokens": 3, "max_num_seqs": 1, "cudagraph_capture_sizes": [1], "cudagraph_mode": "FULL"}
REQUEST = {"arrival": "0ms", "prompt_tokens": 1, "output_tokens": 1}


def start(
    form: str = "0.33", variant: str | None = None, dp: int = 2, tp: int = 1, pp: int = 1, **more: Any
) -> Scenario:
    """Returns a small start.

    `program`: `startup`, or `startup_watched`. `ports`: ports at which other programs listen; `late`: ports at which
    they begin to listen at some time. `pieces`: forms of pieces by name.
    """
    pieces = more.pop("pieces", {})
    ports = [{"port": port} for port in more.pop("ports", ())]
    ports += [{"port": port, "late": True} for port in more.pop("late", ())]
    config = {**SMALL, **more.pop("config", {})}
    return scenario_from(
        {
            "name": "start",
            "protocol": {"name": more.pop("program", "startup"), "form": form, "variant": variant, "pieces": pieces},
            "topology": {"data_parallel_size": dp, "tensor_parallel_size": tp, "pipeline_parallel_size": pp},
            "config": config,
            "workload": {"requests": [REQUEST]},
            "ports": ports,
            **more,
        }
    )


@dataclass(frozen=True)
class Seen:
    """One run. It names ranks like "rank 0", and services by their name."""

    world: World
    run: Run

    def who(self, numbers: Sequence[int]) -> list[str]:
        return [self.world.actor(number) for number in numbers]

    def having(self, label: str) -> list[str]:
        """Returns the actors that reached a probe."""
        journals = enumerate(self.run.journals)
        return self.who(
            [n for n, journal in journals if any((raw[KIND], raw[SITE]) == ("probe", label) for raw in journal)]
        )

    def ended(self, *ends: str) -> list[str]:
        return self.who([n for n, end in enumerate(self.run.ends) if end in ends])

    @property
    def serving(self) -> list[str]:
        return self.having(SERVES)

    @property
    def gave_up(self) -> list[str]:
        return self.having(FAILED) + self.having(STOPPED)

    @property
    def up(self) -> bool:
        return len(self.serving) == self.world.actors

    @property
    def errors(self) -> dict[str, str]:
        """The last error of each actor that raised one."""
        last = {self.world.actor(n): as_record(journal[-1]) for n, journal in enumerate(self.run.journals) if journal}
        return {who: f"{one.site}: {one.message}" for who, one in last.items() if isinstance(one, Raised)}

    @property
    def learned(self) -> Counter[Any]:
        return Counter(
            raw[LEARNED_OUTCOME] for journal in self.run.journals for raw in journal if raw[KIND] == "learned"
        )

    def wrong(self) -> list[str]:
        """Returns how the run breaks the rule: all live participants serve or none does, and none is blocked."""
        found = []
        if self.serving and self.gave_up:
            found.append(f"{self.serving} serve, and {self.gave_up} gave up")
        if blocked := self.ended("blocked"):
            found.append(f"{blocked} are blocked at the end")
        if not self.up and "frontend" not in (*self.errors, *self.ended("died")):
            found.append("the front end reports no reason")
        return found


def run(scenario: Scenario) -> Seen:
    """Runs the scenario once, with simulated time."""
    subject = Subject.of(scenario)
    return Seen(subject.world, SimBackend().run_program(subject.world, subject.program, subject.prepared))


def explored(scenario: Scenario, limit: int = 5_000, by: str = "dpor") -> tuple[Exploration, list[Seen]]:
    """Explores all schedules up to `limit`. Each line of `Seen.wrong` is a problem."""
    subject, seen = Subject.of(scenario), list[Seen]()

    def once(strategy: Strategy) -> list[Problem]:
        done = SimBackend(choose=strategy, memory=False).run_program(subject.world, subject.program, subject.prepared)
        seen.append(Seen(subject.world, done))
        return [Problem(line, line) for line in seen[-1].wrong()]

    return explore(once, search(by, 0), Budget(limit)), seen


def addresses(seen: Seen) -> Iterator[tuple[str | int, str, int]]:
    """Yields ops at which a participant can die: participant, site, ordinal. Workers are numbers, services names."""
    for number, journal in enumerate(seen.run.journals):
        who: str | int = number if number < seen.world.size else seen.world.actor(number)
        for raw in journal:
            if raw[KIND] in ("store", "post", "take", "collective", "read"):
                yield who, raw[SITE], as_record(raw).ordinal
