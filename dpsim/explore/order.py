"""The order of one run: which of its steps happened before which, and which could have happened in the other order.

    step = order.add(label, footprint, causes)      # step.causes: all steps before it; step.races: what it races with

A *step* is an op that a strategy picked. Two steps are ordered by an edge of the machine (`causes`), by a conflict of
their footprints, or by a chain of these. All other steps commute. Two runs whose steps have the same order have the
same result, and are of one **class** (a Mazurkiewicz trace).

Sets of steps are bit masks. A bit belongs to a label and not to a position (`Labels`), so the masks of two runs can be
compared.

Two steps *race* if they conflict, and if neither edges nor a third racing step order them. A release of a slot between
two acquires does not count as a third step, because it would hide that the acquires compete. A release and an acquire
race like any two steps, because with two slots they may have both orders. Without this race, an acquire would not race
with those that come after the release on its stream.

Prior art: Mazurkiewicz traces; Abdulla, Aronis, Jonsson and Sagonas, "Source sets" (JACM 2017). Python integers as sets
of steps take 40 ns for an operation, up to a thousand steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from dpsim.contract.schedule import Footprint, OptionalWait, conflict

ClassKey: TypeAlias = frozenset[tuple[int, int]]


class Labels:
    """Gives each label a bit, which is the same in all runs."""

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
        """Returns the labels of a mask, in the order of their first occurrence."""
        names = list[str]()
        while mask:
            least = mask & -mask
            names.append(self.names[least.bit_length() - 1])
            mask ^= least
        return names


class Step:
    """A step of a run. `causes`: the bits of it and of all steps before it. `races`: earlier ones that race with it."""

    __slots__ = ("at", "bit", "causes", "footprint", "label", "races")

    def __init__(self, label: str, bit: int, footprint: Footprint, causes: int, races: list[Step]) -> None:
        self.label = label
        self.bit = bit
        self.footprint = footprint
        self.causes = causes
        self.races = races
        self.at = -1  # free for the strategy


class Order:
    """The steps of one run so far."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.steps: list[Step] = []
        self.draws: list[int] = []
        self.unusual: list[str] = []
        """The draws that did not take their first option, in words."""
        self._touched: dict[Any, list[tuple[Step, str]]] = {}

    def add(self, label: str, footprint: Footprint, causes: int) -> Step:
        """Adds the next step and returns it. `causes`: the bits of the ops before it by edges."""
        bit = self.labels.bit(label)
        causes, races = self.before(footprint, causes)
        step = Step(label, bit, footprint, bit | causes, races)
        self.take(step)
        return step

    def take(self, step: Step) -> None:
        """Adds a step of an earlier run that was equal up to here, so its causes and races are known."""
        touched = self._touched
        for resource, mode in step.footprint:
            if mode == "w" or resource not in touched:
                touched[resource] = [(step, mode)]
            else:
                touched[resource].append((step, mode))
        self.steps.append(step)

    def draw(self, words: str, index: int) -> None:
        """Adds a draw and its outcome. Two runs with different outcomes are of different classes."""
        self.draws.append(self.labels.bit(words))
        if index:
            self.unusual.append(words)

    def before(self, footprint: Footprint, causes: int) -> tuple[int, list[Step]]:
        """Returns all causes of a step with this footprint, and the earlier steps with which it would race. `causes`:
        its causes by edges. To these come the earlier steps that conflict with it, and their causes.
        """
        edges, touched = causes, self._touched
        found: list[Step] = []
        seen = acquires = releases = 0  # bits of `found`; of these, acquires and releases if this step acquires
        for resource, mode in footprint:
            for other, was in touched.get(resource, ()):
                if was == mode and mode not in "wa":  # `conflict`, inlined, because every pick runs this line
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
            lie = lie_but_releases = 0  # the causes of the steps found
            for one in found:
                lie |= one.causes & ~one.bit
                lie_but_releases |= 0 if releases & one.bit else one.causes & ~one.bit
            found = [one for one in found if not (lie_but_releases if acquires & one.bit else lie) & one.bit]
        return causes, found

    def class_key(self) -> ClassKey:
        """Returns a key that is equal only for runs of the same class."""
        otherwise = [(self.labels.bit(words), 0) for words in self.unusual]
        return frozenset([(step.bit, step.causes) for step in self.steps] + otherwise)


def overlap(one: Footprint, other: Footprint) -> bool:
    """Returns whether two footprints conflict in some resource."""
    for resource, mode in one:
        for resource_too, mode_too in other:
            if resource == resource_too and conflict(mode, mode_too):
                return True
    return False


def lasting(waits: Sequence[OptionalWait]) -> list[OptionalWait]:
    """Returns the waits that may last, alone or together: the last peer came never, or after one of these waits."""
    left = [wait for wait in waits if wait.ended]
    while True:
        bits = 0
        for wait in left:
            bits |= wait.bit
        stay = [wait for wait in left if (met := wait.met) is None or met & bits]
        if len(stay) == len(left):
            return left
        left = stay
