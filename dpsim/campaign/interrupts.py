"""Interrupts: attaches to a KeyboardInterrupt what was done before it, so that the command can print that.

except KeyboardInterrupt as error:
    with_done(error, Done(51, 0))
    raise                               # dpsim: interrupted; sampled: 51 schedules, no failure
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from dpsim.contract.words import counted


class Done(NamedTuple):
    """What an exploration did before it was interrupted, in all scenarios together. `worlds`: how many were begun, and
    of how many. `polls`: a loop that polls. `explored`: the `Explored` of each scenario so far. `whole`: the `Whole` of
    a set. Their modules import this one, so it cannot name these types.
    """

    schedules: int
    failures: int
    worlds: tuple[int, int] | None = None
    polls: str = ""
    explored: Sequence[Any] = ()
    whole: Any = None

    def __str__(self) -> str:
        """Returns the text that a command prints; empty if no schedule was run.
        >>> str(Done(51, 0)), str(Done(1, 1)), str(Done(90, 0, (3, 100))), str(Done(0, 0))
        ('sampled: 51 schedules, no failure', 'violated: 1 schedule, 1 failure', \
'sampled: explored 3 of 100 worlds, 90 schedules, no failure', '')
        """
        if not self.schedules:
            return ""
        failures = counted(self.failures, "failure") if self.failures else "no failure"
        worlds = f"explored {self.worlds[0]:,} of {self.worlds[1]:,} worlds, " if self.worlds is not None else ""
        verdict = self.whole.verdict if self.whole is not None else "violated" if self.failures else "sampled"
        polls = f"; {self.polls}" if self.polls else ""
        return f"{verdict}: {worlds}{counted(self.schedules, 'schedule')}, {failures}{polls}"


def with_done(error: KeyboardInterrupt, done: object) -> None:
    """Attaches to an interrupt what was done."""
    error.done = done  # type: ignore[attr-defined]


def done_before(error: KeyboardInterrupt) -> Done:
    """Returns what an interrupt says of an exploration."""
    done = getattr(error, "done", None)
    return done if isinstance(done, Done) else Done(0, 0)
