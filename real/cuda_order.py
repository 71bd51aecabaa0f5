"""What lies behind what on a CUDA device: of each point of a stream, the operations of communicators before it.

    stream.behind = NOTHING
    stream.behind = after(stream.behind, {communicator: 3})     # its third operation, of this stream
    stream.behind = after(stream.behind, event.behind)          # or of one that this stream waited for
    settle(stream.behind)                                       # a host has waited for this point

NCCL's abort ends the kernels of its communicator, and what comes behind them on a stream runs on undefined memory. A
wait for that raises Aborted; streams that have nothing to do with it go on. CUDA does not say which operation an abort
broke off. So if the last one was under way, all operations count as broken off whose end no host has seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

from dpsim.contract.interface import Aborted


class Numbered(Protocol):
    """A communicator whose operations are counted. `seen`: how many of them a host knows to be over. `broken`: whether
    an abort has broken off those behind them.
    """

    name: str
    seen: int
    broken: bool


Behind = Mapping[Numbered, int]
"""By communicator, how many of its operations come before a point of a stream. Replaced, never changed."""

NOTHING: Behind = MappingProxyType({})


def after(one: Behind, other: Behind) -> Behind:
    """What a point is behind that comes after both."""
    if one is other or not other:
        return one
    return {**one, **{communicator: max(number, one.get(communicator, 0)) for communicator, number in other.items()}}


def settle(behind: Behind) -> None:
    """What a host has waited for was reached. Raises Aborted if that is only because something was broken off."""
    for communicator, number in behind.items():
        if communicator.broken and number > communicator.seen:
            raise Aborted(f"{communicator.name} was aborted, and this lies behind an operation that was broken off")
    for communicator, number in behind.items():
        communicator.seen = max(communicator.seen, number)


class CommunicatorOrder:
    """Where the last operation of a communicator is: its stream, the event behind it, and what that is behind.

    A replay leaves its event to be recorded later (`CudaStream.owed`). Recording takes a device 0.2 us of the 1.6 that
    are allowed for a replay of eight layers. Of twenty replays in a row, only the last one's event is ever waited for.
    The event is recorded before anything is put on the stream that may wait, so a stream that waits for it waits for no
    more.
    """

    __slots__ = ("behind", "last", "mark")

    def __init__(self) -> None:
        self.last: Any = None
        self.mark: Any = None
        self.behind: Behind = NOTHING
