"""Compares dpsim's verdict on a script with the contract: outcomes, findings, and what a proof assumes.

    compared = judged(script)
    compared.difference         # "" or what is wrong, in a few words

`tests.interpreter.clock` defines three readings of time. dpsim must show the outcomes of the readings `timed` and
`patient`. It may also show outcomes of `early`, in which time-outs pass at any time.

If ranks share a module, or threads share a list without an order, outcomes are not comparable. Then dpsim must report a
finding, and it must still prove similar scripts that share nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.subject import Origin, Subject
from tests.interpreter import clock, modules
from tests.interpreter.comparison import Compared
from tests.interpreter.interpreter import Allowed, interpret
from tests.interpreter.language import Script, unwrapped
from tests.interpreter.machine import PROTOCOLS, explore_script, program_of, world_of_script

STATES, SCHEDULES = 6_000, 600

SILENT = ("sleep", "idle", "append", "show", "put", "look", "odd", "stop", "raise")


@dataclass(frozen=True)
class Judged:
    """The result. `known`: the script was small enough to be compared completely."""

    script: Script
    difference: str = ""
    known: bool = True


def expected(script: Script, states: int = STATES) -> Compared:
    """Returns what the contract requires and allows."""
    least = interpret(script, states)
    if uses(script, "within"):
        least = least.joined(interpret(script, states, mode=clock.TIMED))
    most = least
    if script.mortal or uses(script, "within"):
        most = interpret(script, states, generous=bool(script.mortal), mode=clock.EARLY)
    return Compared(least, most)


def uses(script: Script, *whats: str) -> bool:
    return any(unwrapped(how)[0] in whats for said in script.ranks for how in said)


def judged(script: Script, states: int = STATES, schedules: int = SCHEDULES) -> Judged:
    compared = expected(script, states)
    if not (compared.least.complete and compared.most.complete):
        return Judged(script, known=False)
    if uses(script, "put", "look"):
        return Judged(script, _shared(script, compared.least, schedules))
    if script.promise:
        return Judged(script, _promised(script, compared.least, schedules))
    if not any(unwrapped(how)[0] not in SILENT for said in script.ranks for how in said):
        return Judged(script, "" if explored(script, schedules).unmet else "nothing was coordinated, and all is well")
    return _outcomes(script, compared, schedules)


def _outcomes(script: Script, compared: Compared, schedules: int) -> Judged:
    least, seen = compared.least, explore_script(script, schedules)
    difference = compared.against(seen).difference
    if difference == "missed" and "tied" in least.some:
        difference = ""
    lost = any("NAN" in klass for klass in seen.found)
    if lost and "lost" not in least.some:
        difference = difference or "a NaN was lost, and none was there"
    if not seen.complete:
        return Judged(script, difference, known=False)
    meaningful = not (least.bad or least.doubtful or seen.bad)
    if meaningful and not script.mortal and seen.timed not in seen.outcomes:
        difference = difference or "the timed run is not explored"
    if "lost" in least.some and not lost:
        difference = difference or "a NaN was lost in silence"
    if uses(script, "start") and any(how[3] == "float" for said in script.ranks for how in said if how[0] == "start"):
        difference = difference or _rounded(script, least, schedules)
    return Judged(script, difference)


def subject_of(script: Script) -> Subject:
    """Returns a script as a scenario's program, which another process can make."""
    program = program_of(script)
    origin = Origin(PROTOCOLS[program], script, dict(os.environ))
    return Subject(world_of_script(script), program(), script, make=lambda: (program(), script), origin=origin)


def explored(script: Script, schedules: int) -> Explored:
    """Explores a script as `dpsim explore` explores a file, including runs of each rank alone."""
    modules.forget()
    return explore_subject(replace(subject_of(script), alone=True), "dpor", schedules=schedules)


def _rounded(script: Script, least: Allowed, schedules: int) -> str:
    found = explored(script, schedules)
    said = any("sum" in words for words in found.assumes)
    if found.verdict != "proven" or "lost" in least.some:
        return ""
    if said and "rounded" not in least.some:
        return "sums are exact, and the verdict assumes an order"
    return "the order of a sum counts, and the verdict does not say so" if "rounded" in least.some and not said else ""


def _shared(script: Script, least: Allowed, schedules: int) -> str:
    """Judges a script whose ranks may share a module. Only findings of the class NONDETERMINISM count, because the
    script may also hang.
    """
    found = explored(script, schedules)
    shown = any(one.failure.problem.klass.startswith("NONDETERMINISM") for one in found.shown)
    if least.always and "leaked" in least.always and found.verdict == "proven":
        return "ranks share a module, and that is proven"
    clean = not least.some & {"leaked", "left"}
    return "ranks share nothing, and that is a finding" if clean and shown else ""


def _promised(script: Script, least: Allowed, schedules: int) -> str:
    """Judges a script whose threads share a list. If nothing orders two accesses, dpsim must report it; otherwise dpsim
    must show all outcomes.
    """
    found = explored(script, schedules)
    hangs = any("blocked" in (end for end, _ in outcome) for outcome in least.outcomes)
    if least.always and "unordered" in least.always and found.verdict == "proven":
        return "threads share without an order, and that is proven"
    if "unordered" not in least.some and not hangs and found.verdict == "violated":
        return f"threads share in order, and that is {found.findings[0].klass}"
    if "unordered" not in least.some:
        seen = explore_script(script, schedules)
        return Compared(least, least, seen).difference
    return ""
