"""Where the interpreter and dpsim differ on a script.

    compare(script).difference      # "" or one of: missed, invented, race missed, race invented

Outcomes of a script with a race depend on what it reads, so of such a script only the verdict is compared. dpsim judges
accesses when they are issued. Where a stream never reaches one, it may call that a race, and need not.
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
    """`least`: what dpsim has to show; `most`: what it may show; `seen`: what it shows, None of a script too large."""

    least: Allowed
    most: Allowed
    seen: Seen | None = None

    def against(self, seen: Seen) -> Compared:
        return replace(self, seen=seen)

    @property
    def known(self) -> bool:
        """Whether the script was small enough for the two to be compared whole."""
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
    """What the contract says, with nothing to compare it with."""
    least = interpret(script, states)
    most = interpret(script, states, generous=True) if script.mortal and least.complete else least
    return Compared(least, most)


def compare(script: Script, states: int = STATES, schedules: int = SCHEDULES) -> Compared:
    """Both on one script."""
    compared = interpreted(script, states)
    return compared.against(explore_script(script, schedules)) if compared.most.complete else compared
