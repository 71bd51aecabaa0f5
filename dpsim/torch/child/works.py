"""What an asynchronous call gives: a Work, and its future.

    work = Started([4], [fill_the_tensor])      # call 4 was started
    work.wait()                                 # stands until dpsim answers, then fills the tensor

`is_completed` asks dpsim, and no is a choice of the schedule. A rank that asks again, and has done nothing in between,
polls. It waits then, since a loop has more schedules than a search can try. A Work that the user never waits for stays
unawaited, and the simulation reports it. For those that a library of torch started the rank waits at its end. A process
group of gloo waits for its queue when it is destroyed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C._distributed_c10d import Work

from dpsim.torch.child import clocks
from dpsim.torch.child.frames import is_users, site
from dpsim.torch.child.pipe import ask, did

Then = Callable[[list[bytes]], None]
"""Takes the blocks of an answer."""

_open: dict[int, Started] = {}
"""Works that no one has waited for, by the number of their first call."""


class Started(Work):
    """Calls that were started. `keys`: their numbers; `then`: what each does with its answer; `out`: the result."""

    def __init__(self, keys: Sequence[int], then: Sequence[Then], out: Any = None, librarys: bool = False) -> None:
        super().__init__()
        self.keys, self.then, self.out, self.librarys = list(keys), list(then), out, librarys
        self.over = False
        self.members: Sequence[int] = ()
        self._from = -1
        self._looked = -1
        if self.keys:
            _open[self.keys[0]] = self

    def wait(self, timeout: Any = None) -> bool:
        if not self.over:
            self.over = True
            if self.keys:
                _open.pop(self.keys[0], None)
            where = site("wait")
            for key, then in zip(self.keys, self.then, strict=True):
                value, blocks = ask(["wait", key, where])
                if self.members:
                    self._from = self.members.index(value)
                then(blocks)
            clocks.CLOCK.works()
        return True

    def synchronize(self) -> None:
        self.wait()

    def block_current_stream(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        if self.over or self._looked == did():
            return self.wait()
        where = site("is_completed")
        if all(ask(["query", key, where])[0] for key in self.keys):
            return self.wait()
        self._looked = did()
        return False

    def _source_rank(self) -> int:
        """The rank in its group that sent what a receive from any source took."""
        return self._from

    def is_success(self) -> bool:
        return self.over

    def exception(self) -> None:
        return None

    def result(self) -> Any:
        self.wait()
        return self.out

    def get_future(self) -> Any:
        """A future. Code in C++ waits for it in ways that dpsim cannot see, so it gets one that is done."""
        caller = sys._getframe(1)
        if "get_future" in caller.f_code.co_names:
            return Later(self)
        self.wait()
        return _done(self.out)

    def get_future_result(self) -> Any:
        self.wait()
        return _done(0)


def _done(value: Any) -> Any:
    future = torch.futures.Future()
    future.set_result(value)
    return future


class Later(torch.futures.Future):  # type: ignore[misc]
    """A future that waits for its Work when its value is asked for, and not before."""

    def __init__(self, work: Started) -> None:
        super().__init__()
        self.work = work

    def _complete(self) -> None:
        if not super().done():
            self.work.wait()
            self.set_result(self.work.out)

    def wait(self) -> Any:
        self._complete()
        return super().wait()

    def value(self) -> Any:
        self._complete()
        return super().value()

    def done(self) -> bool:
        return bool(super().done()) or self.work.over

    def then(self, callback: Any) -> Any:
        self._complete()
        return super().then(callback)

    def add_done_callback(self, callback: Any) -> None:
        self._complete()
        super().add_done_callback(callback)


def joined(works: Sequence[Started], out: Any = None) -> Started:
    """One Work for several."""
    for one in works:
        if one.keys:
            _open.pop(one.keys[0], None)
    keys = [key for one in works for key in one.keys]
    return Started(keys, [then for one in works for then in one.then], out, any(one.librarys for one in works))


def from_library() -> bool:
    """Whether a library of torch makes the current call. Then other code of torch lies between the user's frame and the
    function of torch.distributed.
    """
    frame: Any = sys._getframe(1)
    while frame is not None and not is_users(frame.f_code):
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith("torch") and not name.startswith(PLAIN):
            return True
        frame = frame.f_back
    return False


PLAIN = (
    "torch.distributed.distributed_c10d",
    "torch.distributed.c10d_logger",
    "torch.distributed._functional_collectives",
    "torch._ops",
    "torch.utils",
)
"""Modules of torch through which the user's own calls go."""


def finish() -> None:
    """The rank ends: wait for what libraries started."""
    for one in [*_open.values()]:
        if one.librarys:
            one.wait()
