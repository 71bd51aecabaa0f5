"""An op, the node of the machine's graph: what it does, and which ops come after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import simpy

from dpsim.backend.graphs.kernel_call import KernelError
from dpsim.backend.journal.own_raise import breaks_off_rank
from dpsim.contract.events import IN_THE_END, NO, YES, visit_label
from dpsim.contract.schedule import Footprint, Strategy


class Guard(Protocol):
    """A limited resource that an op acquires when it fires."""

    def open(self) -> bool:
        """Whether enough of it is left."""


class Stopping(Protocol):
    """The device that stops if a kernel on it raises."""

    def fail(self, error: KernelError, by: Op) -> None:
        """A kernel raised: its op `by` does not fire, and neither do other ops under way on the device."""


class Op:
    """An operation of the graph.

    * `pending`: what has yet to happen before it can fire: edges from unfired ops, plus one until it is submitted.
    * `at`: when it fired, or -1. In ns; in untimed mode, the number of time-outs that could pass before.
    * `effect(*args)` runs when it fires; its result is `value`.
    * `after` is the first op behind it, `waiter` the first host that waits for it. `more` and `waiters` list further
      ones, which few ops have.
    * `footprint`: the resources that it touches, or a function that returns them when they depend on the state of the
      run.
    * `life`: the op is lost if this life ends: the device of rank r (r), its host (~r), or None.
    * `guard`: a limited resource that it needs to fire.
    * `device`: for a kernel, its device. Until it fires, its `value` is the address of the launch.
    * `own_mark`, `seen_marks`, `causes` (untimed): sets of bits that edges pass on. A device op may have a mark;
      `seen_marks` are the marks of all ops before this one. The strategy defines `causes`.

    In timed mode, all ops but deaths and failures have exactly this class. If the interpreter met several classes, each
    field access would take ten times as long.
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
    """Whether it disables other ops (`schedule.Candidate.disables`). As a class attribute it costs no memory."""

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
        """The effect raised. For a kernel, the device fails; any other error is a bug in dpsim and is raised."""
        if self.device is None or not breaks_off_rank(error):
            raise error
        failed = KernelError.of(self.label or visit_label(*self.value), effect, error)
        failed.__cause__ = error
        self.device.fail(failed, self)

    def touches(self) -> Footprint:
        """Returns its footprint as if it fired now."""
        footprint = self.footprint
        return footprint() if callable(footprint) else footprint or ()


class Death(Op):
    """`strikes`: whether the rank has not ended yet, so that the death has an effect. It enables no other op."""

    __slots__ = ("strikes",)

    disables = True
    strikes: Callable[[], bool]


class DeviceFailure(Op):
    """A device stops because a kernel on it raised. Its hosts receive the error and continue."""

    __slots__ = ()

    disables = True


def deaths_alone(enabled: list[Op]) -> bool:
    """Sorts failures of devices before deaths, since hosts continue after failures. Whether only deaths are left."""
    enabled.sort(key=lambda op: isinstance(op, Death))
    return isinstance(enabled[0], Death)


def in_the_end(deaths: Sequence[Op], strategy: Strategy) -> list[Op]:
    """The strategy draws which of these deaths happen: a rank that waits without end may also stay alive."""
    ordered = sorted(deaths, key=lambda op: op.label)
    return [
        op
        for op in ordered
        if not (isinstance(op, Death) and op.strikes() and strategy.draw(f"{IN_THE_END}{op.label}", (YES, NO)))
    ]
