"""A row of the table: what hardware may do, what the simulation does, and the words that a verdict prints for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dpsim.campaign.assumptions.facts import Facts

HEADER = ("hardware may", "simulation", "how to ask for it", "a proof says")

OTHERWISE = "no other effect of hardware"
"""Many rows share these words, each where its own `when` holds. They come last."""


class Says(NamedTuple):
    """The words that a verdict prints where `when` holds of its exploration. Several rows may share their words.
    `exact`: the words of one exploration, where they name its ranks.
    """

    words: str
    when: Callable[[Facts], bool]
    exact: Callable[[Facts], str] | None = None

    def of(self, facts: Facts) -> str:
        """The words of this exploration; empty if it took nothing for granted here."""
        if not self.when(facts):
            return ""
        return self.words if self.exact is None else self.exact(facts)


class Assumption(NamedTuple):
    """`does` begins with "always" where the simulation does it wherever it may, with "option" where a world asks for
    it, else with "no". Then a proof takes something for granted and `says` so, or `nothing` is the reason why not.
    """

    may: str
    does: str
    ask: str = ""
    says: tuple[Says, ...] = ()
    nothing: str = ""

    def line(self) -> str:
        """As a line of the document."""
        printed = "; ".join(f'"{one.words}"' for one in self.says)
        last = printed or (f"nothing: {self.nothing}" if self.nothing else "")
        return " | ".join(["", self.may, self.does, self.ask, last, ""]).strip().replace("  |", " |")


class Section(NamedTuple):
    """Rows under a heading."""

    title: str
    rows: tuple[Assumption, ...]
