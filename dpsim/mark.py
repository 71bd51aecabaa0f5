"""Marks for a program of torch.distributed: `step` marks the begin of a step, and `decide` a decision of the rank.

    from dpsim import mark

    for number in range(100):
        mark.step(number)
        mark.decide("tokens", tokens)          # all ranks have to decide the same in a step

Outside of dpsim, both functions do nothing and cost one function call. Under `dpsim explore --torch`, reports name the
step, and dpsim reports ranks that decide differently. This module imports neither torch nor the rest of dpsim.
"""

from __future__ import annotations

from typing import Any


class Listener:
    """Receives the marks of a program. A derived class overrides these methods, which do nothing."""

    def step(self, number: int) -> None:
        """A step begins. `number`: the number that the program gave."""

    def decide(self, label: str, value: Any, group: Any) -> None:
        """The rank decided `value`. All ranks of `group` (None: all ranks) must decide the same in this step."""


_listeners: list[Listener] = []


def listen(listener: Listener) -> None:
    """Passes all later marks to this listener as well."""
    _listeners.append(listener)


def step(number: int) -> None:
    """Marks the begin of step `number`, an int."""
    for one in _listeners:
        one.step(number)


def decide(label: str, value: Any, group: Any = None) -> None:
    """Marks a decision of the rank. `value`: numbers, text, booleans, None, and tuples or lists of these.

    `group`: a torch process group whose members must decide the same, or None for all ranks.
    """
    for one in _listeners:
        one.decide(label, value, group)
