"""Selects random scripts for gloo: small, without a hang and without a race, so that each run ends with a defined
outcome.

    script = suitable("events", 7)          # None if the drawn script does not qualify
    on_gloo(backend, script) in explored_outcomes

The sleeps and time-outs of the scripts differ by many milliseconds, because a real host is late by a few. Flags order
all uses of the threads' list. Otherwise outcomes could differ, because a real thread can pause anywhere, but a thread
of dpsim only between two calls. The scripts also avoid device collectives in which some member has no element.
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
"""Sleeps and time-outs in ms, far apart from each other. Sums of two of them are far apart as well."""


def suitable(kind: str, seed: int) -> tuple[Script, Seen] | None:
    """Returns a script that ends on every machine, with what its exploration shows, or None."""
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
    """Returns whether some member has no element in a device collective. In the contract such a member has no part in
    the call, but on gloo it waits.
    """
    calls = [
        (rank, how) for rank, said in enumerate(script.ranks) for how in map(unwrapped, said) if how[0] == "device"
    ]
    return any(meeting.is_idle(op, shape, script.members(kind), rank) for rank, (_, kind, _, op, shape, _) in calls)


def _coarse(script: Script) -> Script:
    """Returns the script with times that are far apart."""
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
