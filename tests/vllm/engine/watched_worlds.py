"""Groups of engines in which a participant dies or raises, and what happens to the others and to their requests.

seen = run(watched(faults=[Fault("die", 1, At("dp.agree", 0))]))
seen.wrong            # [], or what is wrong: who has not ended, which request has neither an answer nor an error
seen.made             # the ops that each of the others made between the death and its own end
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from dpsim.campaign.subject import Subject
from dpsim.contract.kinds import SILENT
from dpsim.contract.ops import KIND, ORDINAL, RAISED_MESSAGE, SITE, THREAD
from dpsim.contract.schedule import Strategy
from dpsim.contract.world import At, Fault, Kill, Run, World
from dpsim.explore import Budget, Exploration, Problem, explore, search
from dpsim.sim.backend import SimBackend
from dpsim.sim.services.notices import Notices
from dpsim.sim.wiring import Wiring
from dpsim.vllm.engine.watched import ANSWERED, FAILED, UNHEALTHY
from dpsim.vllm.programs.engine import WatchedEngine
from tests.judged import judge
from tests.vllm.engine.group_worlds import Control, group

EXPECTED = ("DEATH:*", "CRASH:ENGINEDEADERROR")


def watched(
    dp: int = 2,
    requests: Sequence[Any] = (1,),
    faults: Iterable[Fault] = (),
    kills: Iterable[Kill] = (),
    control: Control = (),
    frontends: int = 1,
    interval: int = 2,
    pieces: dict[type[Any], type[Any]] | None = None,
    **world: Any,
) -> Subject:
    """Returns a group as `group` does, for `engine_watched`. An end caused by a death is no finding."""
    of = group(
        dp=dp,
        requests=requests,
        control=control,
        interval=interval,
        frontends=frontends,
        pieces={**WatchedEngine.replaced, **(pieces or {})},
    )
    changed = replace(of.world, faults=tuple(faults), kills=tuple(kills), **world)
    return replace(of, world=changed, program=WatchedEngine(), switched_off=EXPECTED)


@dataclass(frozen=True)
class Seen:
    """One run. `owed` has the number of requests of each front end, by the number of the actor."""

    world: World
    run: Run
    owed: dict[int, int]
    made: dict[int, int] = field(default_factory=dict)

    def probes(self, actor: int) -> Counter[str]:
        return Counter(raw[SITE] for raw in self.run.journals[actor] if raw[KIND] == "probe")

    def error(self, actor: int) -> str:
        """Returns the class and the message of the exception that an actor raised, or ""."""
        return next(
            (f"{raw[SITE]}: {raw[RAISED_MESSAGE]}" for raw in self.run.journals[actor] if raw[KIND] == "raised"), ""
        )

    @property
    def hurt(self) -> list[int]:
        """The actors that died, or raised an error other than EngineDeadError."""
        return [
            actor
            for actor, end in enumerate(self.run.ends)
            if end == "died" or (end == "raised" and not self.error(actor).startswith("EngineDeadError"))
        ]

    @property
    def wrong(self) -> list[str]:
        """Returns what is wrong: an actor has not ended, an error names no dead actor, or a request has no reply at
        all.
        """
        names, ends = self.world.actor, self.run.ends
        lines = [f"{names(actor)} is left" for actor, end in enumerate(ends) if end == "blocked"]
        if self.hurt:
            lines += [
                f"{names(one)} ended: {self.error(one)}"
                for one, end in enumerate(ends)
                if end == "raised" and "is gone" not in self.error(one) and one not in self.hurt
            ]
        else:
            lines += [f"{names(one)} raised {self.error(one)}" for one, end in enumerate(ends) if end == "raised"]
        for frontend, owed in self.owed.items():
            probes, end = self.probes(frontend), ends[frontend]
            if end != "died" and probes[ANSWERED] + probes[FAILED] != owed:
                lines.append(f"{names(frontend)} owes {owed}, {probes[ANSWERED]} answered and {probes[FAILED]} failed")
            if end not in ("died", "blocked") and bool(probes[UNHEALTHY]) != (end == "raised"):
                lines.append(f"{names(frontend)} {end}, and got {probes[UNHEALTHY]} reports of bad health")
        return lines


def owed(subject: Subject) -> dict[int, int]:
    engine = getattr(subject.prepared, "engine", subject.prepared)
    layout, plan = engine.layout, engine.plan
    return {
        layout.frontend(number): sum(action[0] == "ADD" for action in plan.of(number))
        for number in range(layout.frontends)
    }


def run(subject: Subject, backend: SimBackend | None = None) -> Seen:
    """Runs a group once, on the simulator with its clock, or on another backend.

    It also counts the ops that each actor makes after the first end of an actor.
    """
    at_first_end: list[list[int]] = []
    wirings: list[Wiring] = []
    gone = Notices.gone

    def wired(*given: Any) -> Wiring:
        wirings.append(Wiring(*given))
        return wirings[-1]

    def noting(self: Notices, actor: int, behind: Callable[..., None]) -> None:
        if not at_first_end:
            at_first_end.append([len(journal) for journal in wirings[-1].journals])
        gone(self, actor, behind)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Notices, "gone", noting)
        patch.setattr("dpsim.sim.backend.Wiring", wired)
        of = (backend or SimBackend()).run_program(subject.world, subject.program, subject.prepared)
    made = {
        actor: sum(raw[KIND] not in SILENT for raw in journal[before:])
        for actor, (journal, before) in enumerate(
            zip(of.journals, at_first_end[0] if at_first_end else [], strict=bool(at_first_end))
        )
        if of.ends[actor] != "died"
    }
    return Seen(subject.world, of, owed(subject), made)


def addresses(subject: Subject) -> list[tuple[int, At]]:
    """Returns every op that an actor issues in a run without a death, as (actor, address)."""
    journals = run(subject).run.journals
    return [
        (actor, At(raw[SITE], raw[ORDINAL], thread=raw[THREAD]))
        for actor, journal in enumerate(journals)
        for raw in journal
        if raw[KIND] not in SILENT
    ]


def explored(subject: Subject, limit: int, by: str = "dpor", seed: int = 0) -> tuple[Exploration, list[int]]:
    """Explores all schedules, or the first `limit`. Also returns the most ops that each actor made after a death."""
    most = [0] * subject.world.actors

    def once(strategy: Strategy) -> list[Problem]:
        seen = run(subject, subject.backend(strategy))
        for actor, made in seen.made.items() if seen.hurt else ():
            most[actor] = max(most[actor], made)
        problems = [Problem("LEFT", line) for line in seen.wrong]
        others = [
            one
            for one in judge(subject.world, seen.run, EXPECTED)
            if not one.klass.startswith(("DEATH", "CRASH:ENGINEDEAD"))
        ]
        return problems or [Problem(one.klass, one.message) for one in others]

    return explore(once, search(by, seed), Budget(limit)), most
