"""The socket between a rank's process and dpsim: the process sends messages, and blocks where it needs an answer.

    tell(["step", 3])                           # returns at once
    answer, blocks = ask(["wait", [4]])         # blocks until the simulation has reached that call

A rank runs ahead of the simulation until it needs an answer. If dpsim schedules the threads of the process
(`dpsim.torch.child.threads`), nearly every message waits for an answer, because dpsim may continue another thread at
this call.
"""

from __future__ import annotations

import builtins
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn, TypeAlias

from dpsim.torch import wire
from dpsim.torch.child import imports
from dpsim.torch.child.clocks import CLOCK, clock, of_name
from dpsim.torch.child.unbound import Unbound
from dpsim.torch.child.uncovered import NotCovered

Frame: TypeAlias = tuple[list[Any], list[bytes]]

true_lock = threading.Lock
"""Python's own lock, because `dpsim.torch.child.queues` replaces `threading.Lock`."""
_pipe: list[wire.Pipe] = []
_home: list[int] = []

refused_in_threads: list[NotCovered] = []
"""Errors of other threads for calls that dpsim does not simulate. The program may lose such an error."""


class Hold(ABC):
    """The threads of this process, which dpsim schedules one at a time."""

    @abstractmethod
    def heard(self) -> Frame:
        """Blocks until dpsim answers the calling thread, and returns the answer."""

    @abstractmethod
    def knows(self) -> bool:
        """Returns whether Python started the calling thread."""


held: list[Hold] = []
"""Has one item if dpsim schedules the threads of this process, and no item otherwise."""

ANSWERS: dict[str, wire.Form] = {
    "run": (int, int, str, str, list, bool, bool),
    "value": (str, (str, int, float, bool, type(None), list)),
    "error": (str, str, str),
    "clock": (int,),
}
"""The types of the items of dpsim's answers. The first item of "value" and "error" is the thread that asked. A "clock"
precedes an answer, and brings the time of ranks that it depends on.
"""

AHEAD = ("place", "step", "loop", "clock", "imported", "done", "exited", "raised")
"""Messages that never wait for an answer, even if dpsim schedules the threads. dpsim makes no call for them, because
it might then continue another thread, whose conversation would read the next message of this one.
"""

ENDS = ("raised", "exited", "uncovered")

owed: list[list[Any]] = []
"""Messages that the process sends before its next message, unless that message reports an error that ends the rank."""

QUIET = ("sleep", "loop", "place", "step", "asynchronous", "outside")
"""Messages that no other rank could wait for. They do not count in `did`."""

_did = [0]


def did() -> int:
    """Returns how many messages this process has sent, without those in `QUIET`."""
    return _did[0]


def at_home() -> bool:
    """Returns whether the main thread calls."""
    return threading.get_ident() == _home[0]


def open_pipe(pipe: wire.Pipe) -> None:
    """Sets the pipe of this process, with this thread as its main thread. `os._exit` flushes the pipe from now on."""
    end = os._exit

    def leave(status: int) -> NoReturn:
        flush()
        end(status)

    os._exit = Unbound(leave, end)
    _pipe[:] = [pipe]
    _home[:] = [threading.get_ident()]
    os.register_at_fork(after_in_child=_leave)


def _leave() -> None:
    """Lets a process that the rank forks be none: it sends nothing, and reads the real clock."""
    _pipe.clear()
    _home[:] = [0]
    CLOCK.begun = False


def tell(message: Sequence[Any], blocks: Sequence[bytes] = ()) -> None:
    """Sends a message without an answer at the next `flush`. Ends the process if dpsim has ended."""
    if held and message[0] not in AHEAD:
        ask(message, blocks)
    else:
        say(message, blocks)


def say(message: Sequence[Any], blocks: Sequence[bytes] = ()) -> None:
    """Sends a message and the messages in `owed`, and waits for no answer."""
    come()
    while owed and message[0] not in ENDS:
        tell(owed.pop(0))
    _did[0] += message[0] not in QUIET
    try:
        own = clock()
        if own.passed != own.told:
            own.told = own.passed
            _pipe[0].send(["clock", own.passed])
        if modules := imports.new():
            _pipe[0].send(["imported", modules])
        _pipe[0].send(message, blocks)
    except wire.Closed:
        os._exit(0)


def come() -> None:
    """Checks that the calling thread may make calls. It has read no shared state yet. Raises NotCovered."""
    if not may_speak():
        raise foreign()


def may_speak() -> bool:
    """Returns whether the calling thread may send messages."""
    return held[0].knows() if held else at_home()


def foreign() -> NotCovered:
    """Returns the error for a thread that Python did not start. If dpsim schedules no threads here yet, it runs the
    program again and does; until then the thread waits here.
    """
    if _pipe and not held:
        with suppress(wire.Closed):
            _pipe[0].urge(["second"])
        end = true_lock()
        end.acquire()
        end.acquire()
    if not _pipe:
        return NotCovered("a call of torch.distributed in a process that a rank forked")
    error = NotCovered("a call of torch.distributed from a thread that Python did not start")
    refused_in_threads.append(error)
    return error


def flush() -> None:
    """Writes the collected messages to the socket."""
    for pipe in _pipe:
        with suppress(wire.Closed):
            pipe.flush()


def ask(message: Sequence[Any], blocks: Sequence[bytes] = ()) -> tuple[Any, list[bytes]]:
    """Sends a message, and returns value and blocks of the answer. Raises the error of the simulated call."""
    say(message, blocks)
    return heard()


def heard() -> tuple[Any, list[bytes]]:
    """Waits for the next answer to the calling thread."""
    message, more = held[0].heard() if held else read()
    name, _, *values = message
    if name == "error":
        kind = getattr(builtins, values[0], RuntimeError)
        raise (kind if isinstance(kind, type) and issubclass(kind, Exception) else RuntimeError)(values[1])
    return values[0], more


def read() -> Frame:
    """Reads the next answer, to any thread."""
    try:
        _pipe[0].flush()
        message, more = _pipe[0].receive()
        if wire.checked(message, ANSWERS)[0] == "clock":
            passed = message[1]
            message, more = _pipe[0].receive()
            of_name.get(wire.checked(message, ANSWERS)[1], CLOCK).meets(passed)
    except wire.Closed:
        os._exit(0)
    return message, more
