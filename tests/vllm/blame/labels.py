"""Grades reports of the museum's exhibits by their labels: `labels.yaml` declares which ranks a right report blames.

    right        it accuses exactly the actors that depart from the protocol
    first seen   it accuses actors whose check or wait is the first to show a wrong value or a missing message
    both sides   it accuses no actor, and names both of two sides; no run can show which of them is wrong
    undecided    it accuses no actor, although the label declares that the run shows the culprit
    other        it accuses another actor, or some of the guilty ones only

The site is right if the report names a site of the label, as the site of its culprit or in its text.
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
from dpsim.diagnose.words import text, told

Actor: TypeAlias = int | str
"""A rank by its number, or a service by its name."""

SAYS = ("right", "first seen", "both sides", "undecided", "other")
GOOD = SAYS[:3]

WORD = re.compile(r"[A-Za-z_][\w.]*")


class Label(NamedTuple):
    """One line of the table: the guilty ranks, the two sides, the actors that see the mistake first, and its sites.

    `ranks` is None if each rank of the world is guilty.
    """

    ranks: tuple[Actor, ...] | None
    sides: tuple[tuple[Actor, ...], ...]
    sees: tuple[Actor, ...]
    sites: tuple[str, ...]
    why: str

    def says(self, world: World, found: Finding | None) -> str:
        """Returns the grade of a report, one of `SAYS`."""
        if found is None:
            return "undecided"
        accused = _accused(world, found)
        if not accused:
            named = all(any(_names(told(world, found), actor) for actor in side) for side in self.sides)
            return "both sides" if self.sides and named else "undecided"
        if accused == {*(range(world.size) if self.ranks is None else self.ranks)}:
            return "right"
        return "first seen" if accused <= {*self.sees} else "other"

    def site(self, found: Finding | None) -> bool:
        """Returns whether a report names a site of the label."""
        if found is None:
            return False
        words = {word.rstrip(".") for word in WORD.findall(_text(found))}
        words |= {found.culprit.site} if found.culprit else set()
        return any(fnmatchcase(word, site) for word in words for site in self.sites)


@cache
def labels() -> dict[str, Label]:
    """Returns the label of each exhibit, by name."""
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
    """Returns whether the text names an actor. A rank may also be in a list, such as "ranks 0, 1"."""
    said = _text(found)
    if isinstance(actor, str):
        return re.search(rf"\b{re.escape(actor)}\b", said) is not None
    several = (one for some in re.findall(r"ranks (\d+(?:(?:, | and )\d+)*)", said) for one in re.findall(r"\d+", some))
    return f"{actor}" in (*re.findall(r"rank (\d+)", said), *several)


def _text(found: Finding) -> str:
    return " ".join(map(text, [found.message, *found.details, *found.ground, *found.waits]))
