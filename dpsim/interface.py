"""THE contract between a coordination protocol and a backend.

A protocol is a coroutine that touches the world only through its `Rank`. The simulation suspends the coroutine at every
await; on real hardware the calls block and one `send(None)` runs it to its end. One rule makes both possible:

    **A call that only sends into the world is plain; a call that learns something from it is awaited.**

Plain: alloc, free, launch, device collectives, starting a host collective. Awaited: the `Work` of a host
collective, the read of a buffer. It reads like CUDA, and nothing turns `async` for nothing.

    async def agree(rank: Rank, mine: int) -> int:
        table = np.zeros(rank.host("dp_cpu").size, np.int32)
        table[rank.host("dp_cpu").index] = mine
        table = await rank.host("dp_cpu").all_reduce(table, site="agree")
        rank.decide("largest", int(table.max()), "dp_cpu")
        return int(table.max())

Host and device communicators are two classes because one method with two meanings (await it / order it by a stream)
is how protocols get it wrong. Every op has a *site*: a name in the source that makes its address (see `dpsim.ops`).

Classes here are abstract and hold no behaviour: the docstrings are the law, `dpsim.testing.check_backend` is its
judge. Only what all of sim, gloo and nccl can do is in here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from numpy.typing import NDArray

from dpsim.ops import DType

HostArray: TypeAlias = NDArray[Any]
Kernel: TypeAlias = Callable[..., None]
Frozen: TypeAlias = int | float | bool | str | tuple["Frozen", ...] | None


class Buffer(ABC):
    """A block of device memory, taken from a stream's pool by `Stream.alloc`."""

    shape: tuple[int, ...]
    dtype: DType

    @abstractmethod
    def read(self, site: str) -> Awaitable[HostArray]:
        """Copy to the host: waits until all work put on the buffer's stream so far is done.

        The result is a new numpy array of the buffer's shape and dtype. Await it once, before anything else is awaited.
        """

    @abstractmethod
    def free(self) -> None:
        """Give the memory back to the stream's pool. Later work on the *same* stream may reuse it at once, without
        waiting.
        """


class Stream(ABC):
    """A queue of device work, executed in order, while the host runs ahead."""

    name: str

    @abstractmethod
    def alloc(self, shape: int | tuple[int, ...], dtype: DType, site: str) -> Buffer:
        """Take memory for `shape` elements. Its content is undefined: a kernel or a collective has to write it
        first.
        """

    @abstractmethod
    def launch(
        self,
        site: str,
        kernel: Kernel,
        *,
        reads: Sequence[Buffer] = (),
        writes: Sequence[Buffer] = (),
        args: tuple[Frozen, ...] = (),
        cost: int | None = None,
    ) -> None:
        """Put `kernel(*reads, *writes, *args)` on the stream.

        The kernel gets the arrays of the buffers (numpy in the simulation, torch elsewhere; write it against the
        array API standard), reads them, writes in place those of `writes` and returns nothing. It may touch no
        others: its footprint is exact by construction. `args` are bound now; a closure is refused (TypeError),
        since it would read tomorrow's state. `cost`: nanoseconds of device time in the simulation, None for the
        backend's default; real hardware ignores it.
        """


class HostCommunicator(ABC):
    """A group of ranks that exchange host memory (gloo). `index` is this rank's position in `ranks`."""

    name: str
    ranks: tuple[int, ...]
    index: int

    @property
    def size(self) -> int:
        return len(self.ranks)

    @abstractmethod
    def all_reduce(self, array: HostArray, *, site: str | None = None) -> Awaitable[HostArray]:
        """Sum over the group. Starts at once, with the content that the array has now; await the result (a new
        array) exactly once, a second await is a RuntimeError.

        All members call it in the same order with arrays of equal shape and dtype. Default site:
        "<communicator>.all_reduce".
        """

    @abstractmethod
    def broadcast(self, array: HostArray, root: int, *, site: str | None = None) -> Awaitable[HostArray]:
        """The array of global rank `root`, on every member. As `all_reduce` otherwise. ValueError if `root` is no
        member.
        """


class DeviceCommunicator(ABC):
    """A group of ranks that exchange device memory in stream order (NCCL)."""

    name: str
    ranks: tuple[int, ...]
    index: int

    @property
    def size(self) -> int:
        return len(self.ranks)

    @abstractmethod
    def all_reduce(self, buffer: Buffer, stream: Stream, *, site: str | None = None) -> None:
        """Put an in-place sum over the group on `stream`; it holds the stream until every member's stream has come
        to it.
        """

    @abstractmethod
    def broadcast(self, buffer: Buffer, root: int, stream: Stream, *, site: str | None = None) -> None:
        """Put an in-place broadcast from global rank `root` on `stream`. ValueError if `root` is no member."""


class Rank(ABC):
    """One host thread of one rank: all of the world that a protocol sees."""

    rank: int
    """Global rank, from 0."""
    thread: str
    step: int
    """Logical step tag, -1 at first. The protocol sets it; every op issued afterwards carries it, and checks
    compare ranks step by step."""

    @abstractmethod
    def stream(self, name: str) -> Stream:
        """The stream of that name; made at first use. So far a rank has one, "main"."""

    @abstractmethod
    def host(self, kind: str) -> HostCommunicator:
        """This rank's host communicator of that kind ("dp_cpu"). KeyError names the kinds that the rank has."""

    @abstractmethod
    def device(self, kind: str) -> DeviceCommunicator:
        """This rank's device communicator of that kind ("dp", "ep"). KeyError names the kinds that the rank has."""

    @abstractmethod
    def decide(self, label: str, value: Frozen, kind: str) -> None:
        """Record a value that every member of this rank's communicator of that kind has to decide equally in this step.

        It goes into the trace and to the agreement check; nothing is sent.
        """


__all__ = [
    "Buffer",
    "DeviceCommunicator",
    "Frozen",
    "HostArray",
    "HostCommunicator",
    "Kernel",
    "Rank",
    "Stream",
]
