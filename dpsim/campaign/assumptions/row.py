"""Row: one row of the table of assumptions: what hardware may do, what the simulation does, and what a
verdict prints.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dpsim.campaign.assumptions.facts import Facts

HEADER = ("hardware may", "simulation", "how to ask for it", "a proof says")

OTHERWISE = "no other effect of hardware"
"""Words that many rows share, each under its own condition. A verdict prints them once, at the end."""


class Statement(NamedTuple):
    """Words that a verdict prints if `when` is true of its exploration, or what `exact` returns for it."""

    words: str
    when: Callable[[Facts], bool]
    exact: Callable[[Facts], str] | None = None

    def of(self, facts: Facts) -> str:
        """Returns the words for this exploration; empty if the condition is not true."""
        if not self.when(facts):
            return ""
        return self.words if self.exact is None else self.exact(facts)


class Assumption(NamedTuple):
    """A row of the table: what hardware `may` do, and what the simulation `does`. That begins with "always" if it tries
    each way, with "option" if a scenario has to `ask`, or with "no". What is not always covered has words for the
    verdict (`says`), or the reason why it needs none (`nothing`).
    """

    may: str
    does: str
    ask: str = ""
    says: tuple[Statement, ...] = ()
    nothing: str = ""

    def line(self) -> str:
        """Returns the row as a line of the document."""
        printed = "; ".join(f'"{one.words}"' for one in self.says)
        last = printed or (f"nothing: {self.nothing}" if self.nothing else "")
        return " | ".join(["", self.may, self.does, self.ask, last, ""]).strip().replace("  |", " |")


class Section(NamedTuple):
    """Rows under a heading."""

    title: str
    rows: tuple[Assumption, ...]
