"""The Work that an asynchronous call returns, and its future.

    work = Started([(call, fill_the_tensor)])   # a call that the rank has started
    work.wait()                                 # blocks until dpsim answers, then fills the tensor

`is_completed` asks dpsim whether the call is over, and the explorer tries both answers where both are possible. If the
rank asks again without another message between, `is_completed` waits, because a polling loop has too many schedules.

If the program never waits for a Work, the simulation reports it. But if a library of torch started the call, the rank
waits for it at its end. torch's gloo group does the same when it is destroyed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch._C._distributed_c10d import Work

from dpsim.torch.child import clocks
from dpsim.torch.child.frames import is_users, site
from dpsim.torch.child.locks import Lock
from dpsim.torch.child.pipe import ask, did, held, tell
from dpsim.torch.child.timeouts import StartedCall, stand

Then = Callable[[list[bytes]], None]

_open: dict[int, Started] = {}
"""The Works that the program has not waited for, by the number of their first call."""

_noted: list[bool] = []
"""Has an item if this process has told dpsim that its program waits for a Work."""


class Started(Work):
    """A Work of some calls. `todo`: those without an answer, with a function for it. `librarys`: torch made it."""

    def __init__(self, todo: Sequence[tuple[StartedCall, Then]], out: Any = None, librarys: bool = False) -> None:
        super().__init__()
        self.todo, self.out, self.librarys = list(todo), out, librarys
        self.members: Sequence[int] = ()
        self._from = -1
        self._looked = -1
        self._turn = Lock() if held and self.todo else None
        self._number = self.todo[0][0].number if self.todo else 0
        if self.todo:
            _open[self._number] = self

    @property
    def over(self) -> bool:
        return not self.todo

    def wait(self, timeout: Any = None) -> bool:
        if self._turn is None:
            return self._wait(timeout)
        with self._turn:  # two threads may wait for one Work
            return self._wait(timeout)

    def _wait(self, timeout: Any) -> bool:
        if self.todo:
            _note_asynchronous()
            where = site("wait")
            _open.pop(self._number, None)
            while self.todo:
                call, then = self.todo[0]
                stand(call, timeout, where)
                value, blocks = ask(["wait", call.number, where])
                del self.todo[0]
                if self.members:
                    self._from = self.members.index(value)
                call.tensors.check()
                then(blocks)
                call.tensors.filled()
            clocks.clock().works()
        return True

    def synchronize(self) -> None:
        self.wait()

    def block_current_stream(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        if any(call.group.closed for call, _ in self.todo):
            return True  # because the wait raises at once
        where = site("is_completed")
        if self.over or self._looked == did() or all(ask(["query", call.number, where])[0] for call, _ in self.todo):
            with suppress(RuntimeError):  # the program's own wait raises it again
                self.wait()
            return True
        self._looked = did()
        return False

    def _source_rank(self) -> int:
        """Returns the sender of a receive from any source, as its rank in the group."""
        return self._from

    def is_success(self) -> bool:
        return self.over

    def exception(self) -> None:
        return None

    def result(self) -> Any:
        self.wait()
        return self.out

    def get_future(self) -> Any:
        """Python code receives a future that waits later. C++ receives a completed one, as dpsim sees no wait there."""
        caller = sys._getframe(1)
        if "get_future" in caller.f_code.co_names:
            return Later(self)
        self.wait()
        return _done(self.out)

    def get_future_result(self) -> Any:
        self.wait()
        return _done(0)


def _note_asynchronous() -> None:
    """Tells dpsim once that the program itself waits for a Work, so that it may read the result before."""
    frame: Any = sys._getframe(1)
    while frame.f_code.co_filename == __file__ or frame.f_code.co_name == "wait":  # a batch waits for its Works
        frame = frame.f_back
    if is_users(frame.f_code) and not _noted:
        _noted.append(True)
        tell(["asynchronous"])


def _done(value: Any) -> Any:
    future = torch.futures.Future()
    future.set_result(value)
    return future


class Later(torch.futures.Future):  # type: ignore[misc]
    """A future that waits for its Work when the program first needs the value."""

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
    """Returns one Work for the calls of several."""
    todo = [one for work in works for one in work.todo]
    for call, _ in todo:
        _open.pop(call.number, None)
    return Started(todo, out, any(one.librarys for one in works))


def from_library() -> bool:
    """Whether torch calls: then code of torch stands between the user's frame and torch.distributed."""
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
"""Modules of torch that also lie between the user's frame and the call if the user calls torch.distributed directly."""


def finish() -> None:
    """Waits, at the end of the rank, for the calls that libraries of torch started."""
    for one in [*_open.values()]:
        if one.librarys and not any(call.group.closed for call, _ in one.todo):
            for call, _ in one.todo:
                call.tensors.drop()  # because the library dropped the Work, and may use its tensors again
            one.wait()
