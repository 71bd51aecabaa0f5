"""Random scripts for gloo: small, without a hang and without a race, so that each run ends and means something.

    script = suitable("events", 7)          # None if the script drawn is none
    on_gloo(backend, script) in explored_outcomes

Times lie far apart, since a real host is late by some milliseconds. Threads share their list in order, since a real
thread stops anywhere, and in dpsim between two calls. A device collective that has no element for a member is left out.
"""

from __future__ import annotations

from dataclasses import replace

from dpsim.contract.world import Backend
from tests.interpreter import meeting
from tests.interpreter.interpreter import Outcome, interpret
from tests.interpreter.language import Instruction, Script, unwrapped
from tests.interpreter.machine import PROTOCOLS, Seen, explore_script, outcome_of, program_of, world_of_script
from tests.interpreter.rows import drawn
from tests.interpreter.verdicts import expected

KINDS = ("events", "time-outs", "threads", "replays", "mixed")

TIMES = (30, 140, 500)
"""In ms: sums of two of them lie apart as well."""


def suitable(kind: str, seed: int) -> tuple[Script, Seen] | None:
    """A script that ends on every machine, and what exploring it shows."""
    script = _coarse(replace(drawn(kind, seed), mortal=(), residency=None))
    if not any(script.ranks) or _moves_nothing(script):
        return None
    compared = expected(script, 3_000)
    least = compared.least
    if not compared.most.complete or least.bad or least.doubtful or least.standing:
        return None
    if "unordered" in interpret(replace(script, promise=True), 3_000).some:
        return None
    if any(end == "blocked" for outcome in compared.most.outcomes for end, _ in outcome):
        return None
    seen = explore_script(script, 400)
    return (script, seen) if seen.complete else None


def _moves_nothing(script: Script) -> bool:
    """Whether a device collective has no element for a member: in the contract it has no part, on gloo it waits."""
    calls = [
        (rank, how) for rank, said in enumerate(script.ranks) for how in map(unwrapped, said) if how[0] == "device"
    ]
    return any(meeting.is_idle(op, shape, script.members(kind), rank) for rank, (_, kind, _, op, shape, _) in calls)


def _coarse(script: Script) -> Script:
    """With times that lie far apart."""
    ranks = tuple(tuple(map(_coarser, said)) for said in script.ranks)
    return replace(script, ranks=ranks, delays=tuple((rank, at, _far(ms)) for rank, at, ms in script.delays))


def _coarser(how: Instruction) -> Instruction:
    if unwrapped(how)[0] not in ("within", "sleep"):
        return how
    return ("odd", _coarser(how[1])) if how[0] == "odd" else (*how[:-1], _far(how[-1]))


def _far(ms: int) -> int:
    return TIMES[ms % len(TIMES)]


def on_gloo(backend: Backend, script: Script) -> Outcome:
    world = replace(world_of_script(script), stall_ns=10_000_000_000)
    return outcome_of(backend.run(world, PROTOCOLS[program_of(script)], script), script)
