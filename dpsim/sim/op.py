"""What the machine's graph is made of: an op, with what comes after it and what it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import simpy

from dpsim.schedule import Footprint, Strategy


class Guard(Protocol):
    """Something finite that an op acquires when it fires."""

    def open(self) -> bool:
        """Whether there is any left."""


class Op:
    """An operation of the graph.

    `pending` counts what has yet to happen before it may start: edges from unfired ops, plus one until it is
    submitted. `at` is when it fired, -1 before. `effect(*args)` runs when it fires; its result is `value`.
    `footprint` may be a function, for what depends on how far others are. `life`: what the op dies with: the device
    of rank r (r), its host (~r), or nothing (None). `guard`: what has to be open for it to fire. Untimed, two sets of
    bits go along the edges. An op of a device may have a mark, `own_mark` (else 0); `seen_marks` are those of what lies
    before this op, so whoever knows of it knows of them. `causes` are the strategy's.
    """

    __slots__ = (
        "args",
        "at",
        "causes",
        "cost",
        "effect",
        "footprint",
        "guard",
        "label",
        "life",
        "own_mark",
        "pending",
        "seen_marks",
        "successors",
        "value",
        "waiters",
    )

    disables = False
    """Whether it takes from others the chance to happen, as the seam to exploration asks; no slot, so no cost an op."""

    mute = False
    """Whether its effect has to return nothing."""

    def __init__(
        self,
        label: str,
        cost: int = 0,
        effect: Callable[..., Any] | None = None,
        footprint: Footprint | Callable[[], Footprint] | None = None,
        life: int | None = None,
        args: tuple[Any, ...] = (),
    ) -> None:
        self.label = label
        self.cost = cost
        self.effect = effect
        self.args = args
        self.footprint = footprint
        self.life = life
        self.guard: Guard | None = None
        self.seen_marks = self.own_mark = 0
        self.causes = 0
        self.pending = 1
        self.successors: list[Op] | None = None
        self.at = -1
        self.value: Any = None
        self.waiters: list[simpy.Event] | None = None

    def failed(self, effect: Callable[..., Any], error: BaseException) -> None:
        """The effect raised. Only of kernels that is a matter of the program."""
        raise error

    def touches(self) -> Footprint:
        """Its footprint as it would fire now."""
        footprint = self.footprint
        return footprint() if callable(footprint) else footprint or ()


class Death(Op):
    """A rank dies, and what it has not done yet is never done. `strikes`: whether the rank has not ended yet."""

    __slots__ = ("strikes",)

    disables = True
    strikes: Callable[[], bool]


def spared(able: Sequence[Op], strategy: Strategy) -> bool:
    """Nothing but deaths can happen any more. Whoever stands still may do so for ever, and not die."""
    victims = sorted(op.label for op in able if isinstance(op, Death) and op.strikes())
    return bool(victims) and strategy.draw(f"in the end, {victims[0]}", ("yes", "no")) == 1
