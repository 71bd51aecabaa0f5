"""Futures of `concurrent.futures` for a rank whose threads dpsim schedules: the order in which jobs end is a choice.

    for job in as_completed(jobs): ...      # the explorer tries each order of the ends

The end of a job conflicts with the ends of other jobs. It also conflicts with each look at what has ended: `done`,
`as_completed`, `wait` and a callback. `result` waits, so it needs no choice.
"""

from __future__ import annotations

import concurrent.futures as package
from collections.abc import Callable
from concurrent.futures import _base
from typing import Any

from dpsim.torch.child.locks import numbers
from dpsim.torch.child.threads import choose

ENDS = ("set_result", "set_exception")
LOOKS = ("done", "add_done_callback")
LOOPS = ("as_completed", "wait")


def install() -> None:
    """Makes the ends of jobs, and the looks at them, choices of the schedule."""
    for name in (*ENDS, *LOOKS):
        setattr(_base.Future, name, _choosing(getattr(_base.Future, name), name in ENDS))
    for name in LOOPS:
        function = _choosing(getattr(_base, name), False)
        for module in (_base, package):
            setattr(module, name, function)
    _base.Future.__hash__ = _by_number  # type: ignore[method-assign]


def _choosing(original: Callable[..., Any], changes: bool) -> Callable[..., Any]:
    def called(*args: Any, **more: Any) -> Any:
        choose("futures", changes)
        return original(*args, **more)

    return called


def _by_number(self: Any) -> int:
    """Returns a number as hash, so that a set of futures has the same order in each run."""
    return int(vars(self).setdefault("_number", next(numbers)))
