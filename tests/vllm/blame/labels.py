"""What the labels of the museum say of a report: `labels.yaml` has whom a right one blames.

    right        it accuses those who depart from the protocol, and no other
    first seen   it accuses those whose check or wait shows a wrong value, or a message that was never sent, first
    both sides   it accuses none, and names both of two sides, of which no run can say which is wrong
    undecided    it accuses none, and the label says that the run decides
    other        it accuses another one, or some of them

The site is right if the report names one that the label has: the culprit's own, or one in its text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

import yaml

from dpsim.checks.finding import Finding
from dpsim.contract.world import World

Actor: TypeAlias = int | str
"""A rank by its number, a service by its name."""

SAYS = ("right", "first seen", "both sides", "undecided", "other")
GOOD = SAYS[:3]

WORD = re.compile(r"[A-Za-z_][\w.]*")


class Label(NamedTuple):
    """One line of the table. `ranks` is None for each rank of the world."""

    ranks: tuple[Actor, ...] | None
    sides: tuple[tuple[Actor, ...], ...]
    sees: tuple[Actor, ...]
    sites: tuple[str, ...]
    why: str

    def says(self, world: World, found: Finding | None) -> str:
        """One of `SAYS`."""
        if found is None:
            return "undecided"
        accused = _accused(world, found)
        if not accused:
            named = all(any(_names(found, actor) for actor in side) for side in self.sides)
            return "both sides" if self.sides and named else "undecided"
        if accused == {*(range(world.size) if self.ranks is None else self.ranks)}:
            return "right"
        return "first seen" if accused <= {*self.sees} else "other"

    def site(self, found: Finding | None) -> bool:
        """Whether a report names a site of the label."""
        if found is None:
            return False
        words = {word.rstrip(".") for word in WORD.findall(_text(found))}
        words |= {found.culprit.site} if found.culprit else set()
        return any(fnmatchcase(word, site) for word in words for site in self.sites)


@cache
def labels() -> dict[str, Label]:
    """Of each exhibit its label."""
    table = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return {name: _label(**row) for name, row in table.items()}


def _label(
    ranks: Sequence[Actor] | str,
    sites: Sequence[str],
    why: str,
    sides: Sequence[Sequence[Actor]] = (),
    sees: Sequence[Actor] = (),
) -> Label:
    own = None if isinstance(ranks, str) else tuple(ranks)
    assert own or ranks == "each", f"{ranks!r}: expected a list of ranks and services, or `each`"
    return Label(own, tuple(map(tuple, sides)), tuple(sees), tuple(sites), why)


def _accused(world: World, found: Finding) -> set[Actor]:
    culprit = found.culprit
    actors = (culprit.ranks or (culprit.rank,)) if culprit else ()
    return {actor if actor < world.size else world.actor(actor) for actor in actors}


def _names(found: Finding, actor: Actor) -> bool:
    """Whether the text names an actor, a rank also as one of several."""
    text = _text(found)
    if isinstance(actor, str):
        return re.search(rf"\b{re.escape(actor)}\b", text) is not None
    several = (one for some in re.findall(r"ranks (\d+(?:(?:, | and )\d+)*)", text) for one in re.findall(r"\d+", some))
    return f"{actor}" in (*re.findall(r"rank (\d+)", text), *several)


def _text(found: Finding) -> str:
    return " ".join([found.message, *found.details, *found.ground, *found.waits])
