"""The questions about a collective that machines, libraries and checks ask, with the answers that most have.

A call is a tuple: op, count, dtype, root, reduce and sizes, in the order of a record (`dpsim.contract.ops.CALL`). If
the calls of members differ, a check reports it, and the machine gives each rank the result that its own call asks for.

    RULES.awaits(call, rank, members)       # the ranks whose elements it gets
    RULES.result(call, index, sent)         # what it gets, in numpy
    RULES.on_host, RULES.on_device          # the two calls of the contract: they check arguments and make `call`
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
    """Elements of the pieces, one a member: those that go out and those that come in."""

    source: tuple[int, ...]
    output: tuple[int, ...]

    def piece(self, index: int) -> tuple[int, int]:
        """First element and end of a member's piece of the output."""
        return sum(self.output[:index]), sum(self.output[: index + 1])


class Member(Protocol):
    """A communicator of one rank, as the calls see it. The checks raise what the contract says."""

    name: str
    ranks: tuple[int, ...]
    index: int

    @property
    def size(self) -> int: ...

    def _root(self, rank: int) -> int: ...


class HostMember(Member, Protocol):
    """One whose calls give what the program awaits: `_collective` starts a call, whose result has that shape."""

    def _dtype_of(self, array: HostArray, site: str) -> str: ...

    def _collective(
        self, call: Call, array: HostArray, shape: tuple[int, ...], site: str | None
    ) -> HostWork[HostArray]: ...


class DeviceMember(Member, Protocol):
    """One whose calls put work on a stream: `_collective` reads `source` and writes `output`, perhaps the same."""

    def _count_of(self, buffer: Buffer | None) -> int: ...

    def _collective(self, call: Call, output: Buffer, source: Buffer, stream: Stream, site: str | None) -> None: ...


class CollectiveRules:
    """What holds where a collective says nothing else: all give, all get, and all wait for all."""

    __slots__ = ()

    rooted = False
    """Whether the call names a root."""
    even = False
    """Whether all members bring as many elements."""
    shared = False
    """Whether all that get a result get the same, where their calls are the same."""
    pairwise = False
    """Whether each call says by its sizes what goes to each other member, and behind that what comes from each."""
    reduces = False
    """Whether the elements of all are reduced to one."""
    on_host: Callable[..., HostWork[HostArray]] | None = None
    on_device: Callable[..., None] | None = None

    def gives(self, root: int | None, rank: int) -> bool:
        """Whether the elements of this member are read."""
        return True

    def gets(self, root: int | None, rank: int) -> bool:
        """Whether the memory of this member is written. Else it stays as it is."""
        return True

    def awaits(self, call: Call, rank: int, members: Sequence[int]) -> Sequence[int]:
        """The ranks whose elements this member gets; `members` itself where these are all."""
        return members

    def is_idle(self, call: Call) -> bool:
        """Whether the member neither gives elements nor gets any."""
        return not call[1]

    def result(self, call: Call, index: int, sent: Sent) -> HostArray:
        """What the member at this place of the group gets. It never shares memory with what was sent."""
        return np.empty(0, NUMPY[call[2]])

    def results(self, call: Call, sent: Sent) -> list[HostArray]:
        """What each member gets, where all made the same call."""
        return [self.result(call, index, sent) for index in range(len(sent.wires))]

    def signature(self, call: Call, index: int) -> Call:
        """What has to be the same in the calls of all members, in the order of the call."""
        return call

    def sizes(self, call: Call, members: int) -> Sizes:
        """The pieces, where the collective has some. Without sizes in the call they are equal."""
        pieces = call[5] if len(call[5]) == members else (call[1] // members,) * members
        return Sizes(pieces, pieces)

    def refuses(self, call: Call) -> bool:
        """Whether no program can make the call: no library reduces elements of that type so."""
        return self.reduces and call[2] not in reduction_of(call[4]).dtypes

    def sizes_rule(self, call: Call) -> bool:
        """Whether the sizes of a call say what moves, and its count is only their sum."""
        return self.pairwise and bool(call[5])

    def count(self, call: Call, index: int, members: int) -> int:
        """Elements of the member's result."""
        return int(call[1])


def some(members: Sequence[int], sizes: Sequence[int]) -> Sequence[int]:
    """The members whose piece has elements; `members` itself where all have."""
    return members if all(sizes) else tuple(member for member, size in zip(members, sizes, strict=True) if size)
