"""Runs a script on dpsim in all schedules.

seen = explore_script(script, schedules=500)
seen.outcomes       # in the interpreter's form
seen.bad            # classes of findings about races and memory, in any schedule
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dpsim.checks.finding import matches
from dpsim.checks.judge import judge
from dpsim.contract.interface import Rank
from dpsim.contract.ops import DECISION_VALUE, KIND, SITE, RawRecord
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol
from dpsim.contract.schedule import CutOff
from dpsim.contract.world import At, CommunicatorSpec, Delay, Kill, Run, World
from dpsim.explore.strategies.dpor import Dpor
from dpsim.sim.backend import SimBackend
from tests.interpreter.follower import Follower
from tests.interpreter.interpreter import Outcome, outcome_for_peers
from tests.interpreter.language import Script, unwrapped
from tests.programs import OWN


@dataclass
class Seen:
    """What dpsim shows. `found`: the classes of all findings. `timed`: the outcome of a timed run. `complete`: DPOR
    ended within the limit of schedules.
    """

    outcomes: set[Outcome] = field(default_factory=set)
    bad: set[str] = field(default_factory=set)
    found: set[str] = field(default_factory=set)
    timed: Outcome | None = None
    runs: int = 0
    complete: bool = False


def explore_script(script: Script, schedules: int = 1_000) -> Seen:
    """Returns what DPOR shows of the script, or what its first `schedules` runs show."""
    seen, strategy, world = Seen(), Dpor(), world_of_script(script)
    while seen.runs < schedules:
        if not strategy.begin():
            seen.complete = strategy.exhausted
            break
        try:
            run = SimBackend(choose=strategy, memory=False).run_program(world, program_of(script)(), script)
        except CutOff:
            strategy.end(whole=False)
            continue
        finally:
            seen.runs += 1
        seen.outcomes.add(outcome_of(run, script))
        seen.found |= {finding.klass for finding in judge(world, run)}
        strategy.end(whole=True)
    seen.bad |= {klass for klass in seen.found if _about_memory(klass)}
    seen.timed = outcome_of(SimBackend().run_program(world, program_of(script)(), script), script)
    return seen


def _about_memory(klass: str) -> bool:
    return matches(klass, "RACE") or matches(klass, "STALE")


def world_of_script(script: Script) -> World:
    made = {how[2] for said in script.ranks for how in map(unwrapped, said) if how[0] == "start" and how[3] == "make"}
    hosts = [one for one in script.hosts if one[0] not in made]
    specs = [CommunicatorSpec(kind, kind, "host", members) for kind, members in hosts]
    specs += [CommunicatorSpec(kind, kind, "device", members) for kind, members in script.devices]
    specs += [CommunicatorSpec(OWN, f"{OWN}{rank}", "host", (rank,)) for rank in range(script.size)]
    kills = tuple(Kill(rank, 0, loses_mail=script.loses_mail) for rank in script.mortal)
    delays = tuple(Delay(rank, At(f"at{place}", 0), ms * 1_000_000) for rank, place, ms in script.delays)
    return World(script.size, tuple(specs), kills=kills, residency=script.residency, delays=delays)


def outcome_of(run: Run, script: Script) -> Outcome:
    noted = [
        tuple(sorted((raw[DECISION_VALUE] for raw in journal if _notes(raw)), key=lambda one: one[0]))
        for journal in run.journals
    ]
    return outcome_for_peers([*zip(run.ends, noted, strict=True)], script)


@register_protocol("interpreted")
class Interpreted(Program[Script]):
    """The program that runs a script."""

    async def run(self, rank: Rank, prepared: Script) -> None:
        rank.step = 0
        await Follower(rank, prepared, rank.rank + 1, []).follow()


@register_protocol("interpreted_threads")
class Threaded(Interpreted):
    threaded = True


@register_protocol("interpreted_promise")
class Promised(Threaded):
    ordered_by_flags = True


PROTOCOLS = {Interpreted: "interpreted", Threaded: "interpreted_threads", Promised: "interpreted_promise"}


def program_of(script: Script) -> type[Interpreted]:
    if script.promise:
        return Promised
    return Threaded if any(how[0] == "spawn" for rank in script.ranks for how in rank) else Interpreted


def _notes(raw: RawRecord) -> bool:
    return bool(raw[KIND] == "decision") and str(raw[SITE]).startswith("learned")
