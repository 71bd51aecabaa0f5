"""The order of communicator operations on a CUDA device: for each point of a stream, which operations come before it.

    stream.behind = NOTHING
    stream.behind = after(stream.behind, {communicator: 3})     # its third operation, on this stream
    stream.behind = after(stream.behind, event.behind)          # the stream waits for an event
    settle(stream.behind)                                       # a host has waited for this point

NCCL's abort ends the kernels of its communicator, and later work on their streams then computes with undefined memory.
So a host that waits for such work must get Aborted, and streams without it continue. CUDA does not report which
operation an abort ended. So if the last operation was under way, all operations whose end no host has seen count as
broken.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

from dpsim.contract.interface import Aborted


class Numbered(Protocol):
    """A communicator whose operations are counted. `seen`: how many of them a host knows to have ended. `broken`:
    whether an abort ended those after them.
    """

    name: str
    seen: int
    broken: bool


Behind = Mapping[Numbered, int]
"""By communicator: how many of its operations come before a point of a stream. Immutable."""

NOTHING: Behind = MappingProxyType({})


def after(one: Behind, other: Behind) -> Behind:
    """Returns the operations before a point that comes after both points."""
    if one is other or not other:
        return one
    return {**one, **{communicator: max(number, one.get(communicator, 0)) for communicator, number in other.items()}}


def settle(behind: Behind) -> None:
    """A host's wait for this point has ended. Raises Aborted if an abort ended work before the point."""
    for communicator, number in behind.items():
        if communicator.broken and number > communicator.seen:
            raise Aborted(
                f"{communicator.name} was aborted, and the rank waits for work behind an operation "
                "that the abort interrupted"
            )
    for communicator, number in behind.items():
        communicator.seen = max(communicator.seen, number)


class CommunicatorOrder:
    """The last operation of a communicator: its stream, the event after it, and the operations before that event.

    A replay does not record its event at once (`CudaStream.owed`). A record takes a device 0.2 us of the 1.6 us that a
    replay of eight layers may take. Of twenty replays in a row, a stream waits only for the last one's event. The
    stream records it before it receives any work that may wait, so a wait for the event waits for nothing else.
    """

    __slots__ = ("behind", "last", "mark")

    def __init__(self) -> None:
        self.last: Any = None
        self.mark: Any = None
        self.behind: Behind = NOTHING
