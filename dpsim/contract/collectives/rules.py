"""The questions about a collective that machines, libraries and checks ask, with the usual answers.

A call is a tuple: op, count, dtype, root, reduce and sizes, in the order of a record (`dpsim.contract.ops.CALL`). If
the calls of members differ, a check reports this, and the machine computes each rank's result from that rank's own
call.

    RULES.awaits(call, rank, members)       # the ranks whose elements it receives
    RULES.result(call, index, sent)         # what it receives, as a numpy array
    RULES.on_host, RULES.on_device          # the two methods of the contract: they check arguments and make `call`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from dpsim.contract.collectives.reductions import reduction_of
from dpsim.contract.collectives.sent import Sent
from dpsim.contract.dtypes import NUMPY
from dpsim.contract.interface import Buffer, HostArray, HostWork, Stream

Call: TypeAlias = tuple[Any, ...]


class Sizes(NamedTuple):
    """The number of elements of each piece, one per member: the pieces to send and the pieces to receive."""

    source: tuple[int, ...]
    output: tuple[int, ...]

    def piece(self, index: int) -> tuple[int, int]:
        """Returns (first element, end) of a member's piece in the output."""
        return sum(self.output[:index]), sum(self.output[: index + 1])


class Member(Protocol):
    """The part of a rank's communicator that the methods of collectives use. Its checks raise the errors of the
    contract.
    """

    name: str
    ranks: tuple[int, ...]
    index: int

    @property
    def size(self) -> int: ...

    def _root(self, rank: int) -> int: ...


class HostMember(Member, Protocol):
    """A host communicator. `_collective` starts a call and returns what the program awaits; the result has the given
    shape.
    """

    def _dtype_of(self, array: HostArray, site: str) -> str: ...

    def _collective(
        self, call: Call, array: HostArray, shape: tuple[int, ...], site: str | None
    ) -> HostWork[HostArray]: ...


class DeviceMember(Member, Protocol):
    """A device communicator. `_collective` puts a call on a stream. It reads `source` and writes `output`, which may be
    the same buffer.
    """

    def _count_of(self, buffer: Buffer | None) -> int: ...

    def _collective(self, call: Call, output: Buffer, source: Buffer, stream: Stream, site: str | None) -> None: ...


class CollectiveRules:
    """The usual rules: all members send, all receive, and all wait for all. The file of a collective overrides what
    differs.
    """

    __slots__ = ()

    rooted = False
    """Whether the call has a root."""
    even = False
    """Whether all members send equally many elements."""
    shared = False
    """Whether all members that receive a result receive the same one, if their calls are equal."""
    pairwise = False
    """Whether the sizes of a call list what it sends to each member, and after that what it receives from each."""
    reduces = False
    """Whether it reduces the elements of all members."""
    on_host: Callable[..., HostWork[HostArray]] | None = None
    on_device: Callable[..., None] | None = None

    def gives(self, root: int | None, rank: int) -> bool:
        """Whether the collective reads this member's elements."""
        return True

    def gets(self, root: int | None, rank: int) -> bool:
        """Whether the collective writes this member's memory. If not, the memory does not change."""
        return True

    def awaits(self, call: Call, rank: int, members: Sequence[int]) -> Sequence[int]:
        """Returns the ranks whose elements this member receives; `members` itself if these are all."""
        return members

    def is_idle(self, call: Call) -> bool:
        """Whether the member neither sends nor receives elements."""
        return not call[1]

    def result(self, call: Call, index: int, sent: Sent) -> HostArray:
        """Returns what the member at this index of the group receives. The array shares no memory with the inputs."""
        return np.empty(0, NUMPY[call[2]])

    def results(self, call: Call, sent: Sent) -> list[HostArray]:
        """Returns what each member receives, if all made the same call."""
        return [self.result(call, index, sent) for index in range(len(sent.wires))]

    def signature(self, call: Call, index: int) -> Call:
        """Returns the values that have to be equal in the calls of all members, in the order of the call."""
        return call

    def sizes(self, call: Call, members: int) -> Sizes:
        """Returns the pieces, if the collective has any. Without sizes in the call, they are equal."""
        pieces = call[5] if len(call[5]) == members else (call[1] // members,) * members
        return Sizes(pieces, pieces)

    def refuses(self, call: Call) -> bool:
        """Whether no program can make this call, because no library can reduce elements of that type by that
        reduction.
        """
        return self.reduces and call[2] not in reduction_of(call[4]).dtypes

    def sizes_rule(self, call: Call) -> bool:
        """Whether the sizes of a call decide what moves, so that its count is only their sum."""
        return self.pairwise and bool(call[5])

    def count(self, call: Call, index: int, members: int) -> int:
        """Returns the number of elements in the member's result."""
        return int(call[1])


def some(members: Sequence[int], sizes: Sequence[int]) -> Sequence[int]:
    """Returns the members whose piece has elements; `members` itself if these are all."""
    return members if all(sizes) else tuple(member for member, size in zip(members, sizes, strict=True) if size)
