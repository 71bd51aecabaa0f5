"""What the machine's graph is made of: an op, with what comes after it and what it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import simpy

from dpsim.backend.graphs.kernel_call import KernelError
from dpsim.backend.journal.own_raise import breaks_off_rank
from dpsim.contract.schedule import Footprint, Strategy, visit_label


class Guard(Protocol):
    """Something finite that an op acquires when it fires."""

    def open(self) -> bool:
        """Whether there is any left."""


class Stopping(Protocol):
    """What a kernel that raises stops: its device."""

    def fail(self, error: KernelError, by: Op) -> None:
        """The op of the kernel does not happen, nor does what is under way."""


class Op:
    """An operation of the graph.

    `pending` counts what has yet to happen before it may start: edges from unfired ops, plus one until it is
    submitted. `at` is when it fired, -1 before. `effect(*args)` runs when it fires; its result is `value`. Until then
    `after` is the first op behind it, and `waiter` the first host that stands at it. Few ops have further ones: `more`
    and `waiters`.
    `footprint` may be a function, for what depends on how far others are. `life`: what the op dies with: the device
    of rank r (r), its host (~r), or nothing (None). `guard`: what has to be open for it to fire. `device`: of a kernel,
    where it runs; until it fires its value is the address of the launch. Untimed, two sets of bits go along the edges.
    An op of a device may have a mark, `own_mark` (else 0). `seen_marks` are the marks of all ops before this one, so a
    host that learns of this op learns of them. `causes` are the strategy's.

    In timed mode, all ops but deaths and failures are of this very class. Where the interpreter meets several classes,
    it looks fields up by name, and that takes ten times as long.
    """

    __slots__ = (
        "after",
        "args",
        "at",
        "causes",
        "cost",
        "device",
        "effect",
        "footprint",
        "guard",
        "label",
        "life",
        "more",
        "own_mark",
        "pending",
        "seen_marks",
        "value",
        "waiter",
        "waiters",
    )

    disables = False
    """Whether it takes from others the chance to happen, as the seam to exploration asks; no slot, so no cost an op."""

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
        self.device: Stopping | None = None
        self.seen_marks = self.own_mark = 0
        self.causes = 0
        self.pending = 1
        self.after: Op | None = None
        self.more: list[Op] | None = None
        self.at = -1
        self.value: Any = None
        self.waiter: simpy.Event | None = None
        self.waiters: list[simpy.Event] | None = None

    def failed(self, effect: Callable[..., Any], error: BaseException) -> None:
        """The effect raised. Only of kernels that is a matter of the program."""
        if self.device is None or not breaks_off_rank(error):
            raise error
        failed = KernelError.of(self.label or visit_label(*self.value), effect, error)
        failed.__cause__ = error
        self.device.fail(failed, self)

    def touches(self) -> Footprint:
        """Its footprint as it would fire now."""
        footprint = self.footprint
        return footprint() if callable(footprint) else footprint or ()


class Death(Op):
    """A rank dies, and what it has not done yet is never done. `strikes`: whether that is still open, as the rank has
    not ended. Nothing can happen because of it.
    """

    __slots__ = ("strikes",)

    disables = True
    strikes: Callable[[], bool]


class DeviceFailure(Op):
    """A device stops because a kernel on it raised. Its hosts learn of that, and go on."""

    __slots__ = ()

    disables = True


def deaths_alone(enabled: list[Op]) -> bool:
    """Whether nothing but deaths can happen any more. Failures come first, since hosts go on after these."""
    enabled.sort(key=lambda op: isinstance(op, Death))
    return isinstance(enabled[0], Death)


def in_the_end(deaths: Sequence[Op], strategy: Strategy) -> list[Op]:
    """The deaths that happen where nothing else can. A rank that stands still may also stand there without end."""
    ordered = sorted(deaths, key=lambda op: op.label)
    return [
        op
        for op in ordered
        if not (isinstance(op, Death) and op.strikes() and strategy.draw(f"in the end, {op.label}", ("yes", "no")))
    ]
