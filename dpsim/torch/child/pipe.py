"""The socket of a rank: what its process tells dpsim, and what it asks.

    tell(["step", 3])                           # goes on at once
    answer, blocks = ask(["wait", [4]])         # stands until dpsim answers

A rank runs on until it has to know something. What it asks is answered when the simulation comes so far; an answer
may be an error of the simulated call, and is raised here. A rank whose threads are held (`dpsim.torch.child.threads`)
asks by each call, since another thread may go on there.
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
from dpsim.torch.child.uncovered import NotCovered

Frame: TypeAlias = tuple[list[Any], list[bytes]]

true_lock = threading.Lock
"""Python's, whatever `threading` has later."""
_pipe: list[wire.Pipe] = []
_home: list[int] = []

refused_in_threads: list[NotCovered] = []
"""What other threads were refused: their errors may go nowhere."""


class Hold(ABC):
    """The threads of this process, of which one runs at a time."""

    @abstractmethod
    def heard(self) -> Frame:
        """The next answer for the thread that calls, which stands until then."""

    @abstractmethod
    def knows(self) -> bool:
        """Whether Python started the thread that calls."""


held: list[Hold] = []
"""One, where the threads are held."""

ANSWERS: dict[str, wire.Form] = {
    "run": (int, int, str, str, list, bool),
    "value": (str, (str, int, float, bool, type(None), list)),
    "error": (str, str, str),
}
"""Answers begin with the name of the thread that asked."""

AHEAD = ("place", "step", "loop", "imported", "done", "exited", "raised")
"""Messages by which a thread that is held goes on at once."""

ENDS = ("raised", "exited", "uncovered")

owed: list[list[Any]] = []
"""Messages that go out before the next thing that the rank does, unless it ends by an error."""

QUIET = ("sleep", "loop", "place", "step")
"""Messages by which a rank does nothing that another one could wait for."""

_did = [0]


def did() -> int:
    """How often this rank did something else."""
    return _did[0]


def at_home() -> bool:
    """Whether the main thread calls."""
    return threading.get_ident() == _home[0]


def open_pipe(pipe: wire.Pipe) -> None:
    """Speak over this socket from now on, in this thread. Messages that wait go out before the process ends."""
    end = os._exit

    def leave(status: int) -> NoReturn:
        flush()
        end(status)

    os._exit = leave
    _pipe[:] = [pipe]
    _home[:] = [threading.get_ident()]


def tell(message: Sequence[Any], blocks: Sequence[bytes] = ()) -> None:
    """Say something that needs no answer: it goes out with the next question. If dpsim has left, the process ends."""
    if held and message[0] not in AHEAD:
        ask(message, blocks)
    else:
        say(message, blocks)


def say(message: Sequence[Any], blocks: Sequence[bytes] = ()) -> None:
    """Write a message that no one answers."""
    come()
    while owed and message[0] not in ENDS:
        tell(owed.pop(0))
    _did[0] += message[0] not in QUIET
    try:
        if modules := imports.new():
            _pipe[0].send(["imported", modules])
        _pipe[0].send(message, blocks)
    except wire.Closed:
        os._exit(0)


def come() -> None:
    """A thread begins a call, and has not yet looked at anything that another one changes. Raises NotCovered."""
    if not (held[0].knows() if held else at_home()):
        raise foreign()


def foreign() -> NotCovered:
    """The error of a thread that is not held. Where none is held, dpsim makes the run again and holds them.
    Until it ends this process the thread stands.
    """
    if not held:
        with suppress(wire.Closed):
            _pipe[0].urge(["second"])
        end = true_lock()
        end.acquire()
        end.acquire()
    error = NotCovered("a call of torch.distributed from a thread that Python did not start")
    refused_in_threads.append(error)
    return error


def flush() -> None:
    """Let dpsim have the messages that wait."""
    with suppress(wire.Closed):
        _pipe[0].flush()


def ask(message: Sequence[Any], blocks: Sequence[bytes] = ()) -> tuple[Any, list[bytes]]:
    """Say something and wait for the answer: its value and its blocks. Raises what the simulated call raised."""
    say(message, blocks)
    return heard()


def heard() -> tuple[Any, list[bytes]]:
    """The next answer."""
    message, more = held[0].heard() if held else read()
    name, _, *values = message
    if name == "error":
        kind = getattr(builtins, values[0], RuntimeError)
        raise (kind if isinstance(kind, type) and issubclass(kind, Exception) else RuntimeError)(values[1])
    return values[0], more


def read() -> Frame:
    """What comes next, for whichever thread."""
    try:
        _pipe[0].flush()
        message, more = _pipe[0].receive()
    except wire.Closed:
        os._exit(0)
    return wire.checked(message, ANSWERS), more
