"""The socket of a rank: what its process tells dpsim, and what it asks.

    tell(["step", 3])                           # goes on at once
    answer, blocks = ask(["wait", [4]])         # stands until dpsim answers

A rank runs on until it has to know something. What it asks is answered when the simulation comes so far; an answer
may be an error of the simulated call, and is raised here.
"""

from __future__ import annotations

import builtins
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

from dpsim.torch import wire
from dpsim.torch.child import imports
from dpsim.torch.child.uncovered import NotCovered

_pipe: list[wire.Pipe] = []
_home: list[int] = []

refused_in_threads: list[NotCovered] = []
"""What other threads were refused: their errors may go nowhere."""

ANSWERS: dict[str, wire.Form] = {
    "run": (int, int, str, str, list),
    "done": (),
    "value": ((str, int, float, bool, type(None), list),),
    "error": (str, str),
}


QUIET = ("sleep", "loop", "place", "step")
"""Messages by which a rank does nothing that another one could wait for."""

_did = [0]


def did() -> int:
    """How often this rank did something else."""
    return _did[0]


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
    if threading.get_ident() != _home[0]:
        refused_in_threads.append(NotCovered("a call of torch.distributed from a second thread of a rank"))
        raise refused_in_threads[-1]
    _did[0] += message[0] not in QUIET
    try:
        if modules := imports.new():
            _pipe[0].send(["imported", modules])
        _pipe[0].send(message, blocks)
    except wire.Closed:
        os._exit(0)


def flush() -> None:
    """Let dpsim have the messages that wait."""
    with suppress(wire.Closed):
        _pipe[0].flush()


def ask(message: Sequence[Any], blocks: Sequence[bytes] = ()) -> tuple[Any, list[bytes]]:
    """Say something and wait for the answer: its value and its blocks. Raises what the simulated call raised."""
    tell(message, blocks)
    return heard()


def heard() -> tuple[Any, list[bytes]]:
    """The next answer."""
    try:
        _pipe[0].flush()
        message, more = _pipe[0].receive()
    except wire.Closed:
        os._exit(0)
    name, *values = wire.checked(message, ANSWERS)
    if name == "error":
        kind = getattr(builtins, values[0], RuntimeError)
        raise (kind if isinstance(kind, type) and issubclass(kind, Exception) else RuntimeError)(values[1])
    return values[0] if values else None, more
