"""The order of one run: which of its steps happened before which, and which could have come the other way round.

A *step* is an op that a strategy picked. Two steps are ordered by an edge, by a conflict of their footprints, or by a
chain of these. (The machine carries the bits of earlier ops in `causes`.) All other steps commute. Two runs whose steps
have the same order have the same result, and make one **class** (a Mazurkiewicz trace).

Sets of steps are bit masks. A bit belongs to a label, not to a position, so two runs can compare their masks. A label
gets its bit when it is first seen (`Labels`), and all strategies of an exploration share the bits.

    step = order.add(label, footprint, causes)      # step.causes: with all that conflicts; step.races

Two steps *race* if they conflict and neither edges nor a third step that races lie between them. A release between two
acquires does not count as a third step: it would hide that the acquires compete. A release and an acquire race like any
others. With one slot they cannot come the other way round, but with two they can. A version without these races hid all
acquires that come after the release on its stream from those before it.

Prior art: Mazurkiewicz traces; Abdulla, Aronis, Jonsson and Sagonas, "Source sets" (JACM 2017). Python integers as sets
of steps cost 40 ns an operation up to a thousand steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from dpsim.contract.schedule import Footprint, OptionalWait, conflict

ClassKey: TypeAlias = frozenset[tuple[int, int]]


class Labels:
    """A bit for each label, the same in all runs."""

    def __init__(self) -> None:
        self.bits: dict[str, int] = {}
        self.names: list[str] = []

    def bit(self, label: str) -> int:
        bit = self.bits.get(label)
        if bit is None:
            bit = self.bits[label] = 1 << len(self.names)
            self.names.append(label)
        return bit

    def named(self, mask: int) -> list[str]:
        """The labels of a mask, in the order in which they were first seen."""
        names = list[str]()
        while mask:
            least = mask & -mask
            names.append(self.names[least.bit_length() - 1])
            mask ^= least
        return names


class Step:
    """A step as it happened. `causes`: all before it, and itself."""

    __slots__ = ("at", "bit", "causes", "footprint", "label", "races")

    def __init__(self, label: str, bit: int, footprint: Footprint, causes: int, races: list[Step]) -> None:
        self.label = label
        self.bit = bit
        self.footprint = footprint
        self.causes = causes
        self.races = races
        self.at = -1  # free for the strategy


class Order:
    """The steps of one run as they come."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.steps: list[Step] = []
        self.draws: list[int] = []
        self.unusual: list[str] = []
        """The draws that did not take the first option, in words."""
        self._touched: dict[Any, list[tuple[Step, str]]] = {}

    def add(self, label: str, footprint: Footprint, causes: int) -> Step:
        """The next step; `causes` are the bits of what is before it by edges."""
        bit = self.labels.bit(label)
        causes, races = self.before(footprint, causes)
        step = Step(label, bit, footprint, bit | causes, races)
        self.take(step)
        return step

    def take(self, step: Step) -> None:
        """The next step, as it was in a run that was the same up to here."""
        touched = self._touched
        for resource, mode in step.footprint:
            if mode == "w" or resource not in touched:
                touched[resource] = [(step, mode)]
            else:
                touched[resource].append((step, mode))
        self.steps.append(step)

    def draw(self, words: str, index: int) -> None:
        """A draw and its outcome: runs that drew otherwise are of another class."""
        self.draws.append(self.labels.bit(words))
        if index:
            self.unusual.append(words)

    def before(self, footprint: Footprint, causes: int) -> tuple[int, list[Step]]:
        """For a step with this footprint and these causes by edges: all its causes, and the steps that it would race
        with. Its causes are all steps that conflict with it and what is before these.
        """
        edges, touched = causes, self._touched
        found: list[Step] = []
        seen = acquires = releases = 0  # those found; among them, where this one acquires
        for resource, mode in footprint:
            for other, was in touched.get(resource, ()):
                if was == mode and mode not in "wa":  # `conflict`, written out: every pick comes here
                    continue
                causes |= other.causes
                if not edges & other.bit:
                    if not seen & other.bit:
                        seen |= other.bit
                        found.append(other)
                    if mode == was == "a":
                        acquires |= other.bit
                    elif mode == "a" and was == "l":
                        releases |= other.bit
        if len(found) > 1:
            lie = lie_but_releases = 0  # what lies before one of them
            for one in found:
                lie |= one.causes & ~one.bit
                lie_but_releases |= 0 if releases & one.bit else one.causes & ~one.bit
            found = [one for one in found if not (lie_but_releases if acquires & one.bit else lie) & one.bit]
        return causes, found

    def class_key(self) -> ClassKey:
        """Equal for runs of the same class only."""
        otherwise = [(self.labels.bit(words), 0) for words in self.unusual]
        return frozenset([(step.bit, step.causes) for step in self.steps] + otherwise)


def overlap(one: Footprint, other: Footprint) -> bool:
    """Whether two footprints conflict somewhere."""
    for resource, mode in one:
        for resource_too, mode_too in other:
            if resource == resource_too and conflict(mode, mode_too):
                return True
    return False


def lasting(waits: Sequence[OptionalWait]) -> list[OptionalWait]:
    """Those of a run that may last without end, alone or together. For each, the last of its peers did not come, or
    came after one of these.
    """
    left = [wait for wait in waits if wait.ended]
    while True:
        bits = 0
        for wait in left:
            bits |= wait.bit
        stay = [wait for wait in left if (met := wait.met) is None or met & bits]
        if len(stay) == len(left):
            return left
        left = stay
