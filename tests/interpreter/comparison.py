"""Compares the interpreter with dpsim on one script.

    compare(script).difference      # "" or one of: missed, invented, race missed, race invented

If a script has a race, its outcomes depend on the values that the race reads. So for such a script the comparison
covers only the verdict. dpsim judges an access when the host issues it. If a stream never reaches the access, dpsim may
report a race, but does not have to.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.interpreter.interpreter import Allowed, interpret
from tests.interpreter.language import Script
from tests.interpreter.machine import Seen, explore_script

STATES = 20_000
SCHEDULES = 600


@dataclass(frozen=True)
class Compared:
    """The two sides of a comparison. `least`: what dpsim must show. `most`: what dpsim may show. `seen`: what dpsim
    shows, or None if the script is too large.
    """

    least: Allowed
    most: Allowed
    seen: Seen | None = None

    def against(self, seen: Seen) -> Compared:
        return replace(self, seen=seen)

    @property
    def known(self) -> bool:
        """Returns whether the script was small enough to be compared completely."""
        return self.seen is not None and self.seen.complete

    @property
    def difference(self) -> str:
        allowed, seen = self.least, self.seen
        if seen is None:
            return ""
        if seen.bad and not allowed.bad and not allowed.standing and not allowed.doubtful:
            return "race invented"
        if allowed.bad and not seen.bad and seen.complete:
            return "race missed"
        if allowed.bad or allowed.doubtful or seen.bad:
            return ""
        if seen.outcomes - self.most.outcomes:
            return "invented"
        if seen.complete and allowed.outcomes - seen.outcomes:
            return "missed"
        return ""


def interpreted(script: Script, states: int = STATES) -> Compared:
    """Returns what the contract requires and allows, without a run of dpsim."""
    least = interpret(script, states)
    most = interpret(script, states, generous=True) if script.mortal and least.complete else least
    return Compared(least, most)


def compare(script: Script, states: int = STATES, schedules: int = SCHEDULES) -> Compared:
    """Runs the interpreter and dpsim on one script."""
    compared = interpreted(script, states)
    return compared.against(explore_script(script, schedules)) if compared.most.complete else compared
