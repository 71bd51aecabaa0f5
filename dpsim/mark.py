"""Marks in a program that runs anywhere: where a step begins, and what a rank decided.

    from dpsim import mark

    for number in range(100):
        mark.step(number)
        mark.decide("tokens", tokens)          # all ranks have to decide the same in a step

Where nothing listens, both do nothing and cost the call of a function. Under `dpsim explore --torch` reports name the
step, and ranks that decide otherwise are a finding. The module imports nothing: neither torch nor the rest of dpsim.
"""

from __future__ import annotations

from typing import Any


class Listener:
    """Who wants to know. A derived class answers; this one does nothing."""

    def step(self, number: int) -> None:
        """A step begins."""

    def decide(self, label: str, value: Any, group: Any) -> None:
        """The rank decided a value, which all ranks of `group` (None: of the world) decide alike in this step."""


_listeners: list[Listener] = []


def listen(listener: Listener) -> None:
    """Tell this one too from now on."""
    _listeners.append(listener)


def step(number: int) -> None:
    """Say that the rank begins step `number`, a whole number."""
    for one in _listeners:
        one.step(number)


def decide(label: str, value: Any, group: Any = None) -> None:
    """Say what the rank decided: numbers, text, booleans, None, and tuples or lists of these. `group`: a process group
    of torch whose members decide alike; None: all ranks.
    """
    for one in _listeners:
        one.decide(label, value, group)
