"""The contract on torch: a rank of a real world, with its memory, mailboxes and sleeps. Host collectives are in
`real.host_calls`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from dpsim.backend.calls.graphs import JournaledGraph
from dpsim.backend.calls.streams import JournaledStream
from dpsim.backend.graphs.kernel_call import KernelCall
from dpsim.backend.hosts.threads import JournaledFlag, JournaledThread, ThreadProgram
from dpsim.backend.hosts.work import Outcome
from dpsim.backend.journal.issue import Issue
from dpsim.backend.journal.journal import Journal
from dpsim.backend.memory.buffers import JournaledBuffer, of_this_backend
from dpsim.backend.memory.pools import GraphPool
from dpsim.contract.interface import Buffer, DeviceCommunicator, Frozen, Stream
from dpsim.contract.ops import DType
from dpsim.contract.rules.made_groups import GroupSpecs
from dpsim.contract.world import CommunicatorSpec, Message, World, outside
from real.communicators import Group, JobGroups
from real.flags import RealFlag
from real.host_calls import GlooHostCommunicator
from real.mail import Mail
from real.making import make
from real.reaching import ReachingRank
from real.stores import RealStore, Stores
from real.taking import taking
from real.waiting import Patience


class RealDevice(ABC):
    """A CPU or a CUDA device, on which the ranks of a process compute. A worker keeps it for its lifetime."""

    spoiled = False
    """Whether a job left state behind that only a new process removes."""

    @abstractmethod
    def connect(self, spec: CommunicatorSpec, store: Any, index: int) -> Any:
        """Creates a process group for collectives on this device. Blocks until every member has called it."""

    def prepare(self, world: World) -> None:  # noqa: B027  # most devices need no preparation
        """Called before a job begins: does slow work for which a program must not wait."""

    @abstractmethod
    def stream(self, rank: RealRank, name: str) -> RealStream:
        """Returns a stream for the rank."""

    @abstractmethod
    def communicator(self, rank: RealRank, group: Group) -> DeviceCommunicator:
        """Returns a device communicator for the rank."""

    @abstractmethod
    def graph(self, rank: RealRank, name: str, pool: GraphPool) -> JournaledGraph:
        """Returns a graph for the rank."""

    def thread(self) -> AbstractContextManager[object]:
        """A block in which a host thread other than main runs its program."""
        return nullcontext()

    def polling(self) -> AbstractContextManager[object]:
        """Returns a block in which a host thread polls the device, even while other threads capture."""
        return nullcontext()

    @abstractmethod
    def clear(self) -> None:
        """A job has ended and nothing runs any more: drops its graphs."""

    @abstractmethod
    def abort(self, process_groups: Iterable[Any]) -> None:
        """Begins to abort these process groups. Does not wait. Any thread may call it, also twice."""

    @abstractmethod
    def is_idle(self, seconds: float) -> bool:
        """Whether aborts and work end within that time, so that the device can be used again. Drops all graphs."""

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Returns versions of libraries, for the header of a trace."""


class RealStream(JournaledStream):
    """A stream that ends with its job."""

    __slots__ = ("gated", "rank")

    def __init__(self, rank: RealRank, name: str) -> None:
        super().__init__(rank.journal, name)
        self.rank, self.gated = rank, bool(rank.world.gates)

    @abstractmethod
    def _drain(self) -> None:
        """Waits until all work of the stream is done; raises its error."""

    @abstractmethod
    def close(self) -> None:
        """Called when the stream receives no more work. Does not wait."""


class RealBuffer(JournaledBuffer):
    """A torch tensor, or rows of one.

    The memory stays allocated until the program frees it or the job ends, even if the program has lost the buffer. So
    places in the journal do not overlap by accident. A view holds no tensor, since that would keep the memory.
    """

    __slots__ = ("_taken", "_whole")

    def __init__(self, stream: RealStream, shape: tuple[int, ...], dtype: DType, whole: Any) -> None:
        super().__init__(stream, shape, dtype)
        self._whole = whole
        self._taken = stream.rank.taken
        if whole is not None:
            self._taken.add(self)

    @property
    def tensor(self) -> Any:
        """The tensor of a buffer that the program has not freed."""
        if self.base is None:
            return self._whole
        _, first, end, *_ = self.ref
        return of_this_backend(self.base, RealBuffer)._whole.view(-1)[first:end].view(self.shape)

    def tagged(self, tag: Frozen) -> Buffer:
        named: RealBuffer = of_this_backend(super().tagged(tag), RealBuffer)
        named._whole = None
        return named

    def _release(self) -> None:
        self._taken.discard(self)
        self._whole = None if self.held is None else self._weak()

    def _weak(self) -> Any:
        """The memory of a graph, as a weak reference."""
        return self._whole


class RealRank(ReachingRank):
    """One rank of a real world, for one job."""

    __slots__ = ("_device", "_size", "broken", "closed", "failure", "mail", "maker", "patience", "stores", "taken")

    maker: JobGroups
    lacked = ""
    """The resource that the machine took away from a host thread other than main."""

    def __init__(
        self, journal: Journal, device: RealDevice, groups: Iterable[Group], patience: Patience, mail: Mail, size: int
    ) -> None:
        super().__init__(journal)
        self._device = device
        self.mail = mail
        self._size = size
        self.patience = patience
        self.stores = Stores()
        journal.shared.injections.post = self._from_outside
        self.taken: set[RealBuffer] = set()
        """Buffers that the program has not freed."""
        self.failure: BaseException | None = None
        """The first error of any of its streams, if streams are threads."""
        self.closed = False
        """Whether the job is over."""
        for group in groups:
            if group.spec.domain == "host":
                self.hosts[group.spec.kind] = GlooHostCommunicator(journal, patience, group)
            else:
                self.devices[group.spec.kind] = device.communicator(self, group)

    def _make(self, specs: GroupSpecs, issues: list[Issue]) -> Outcome:
        return make(self, self._device, specs, issues)

    def fail(self, error: BaseException) -> None:
        """Called by a stream that failed. Only the first error counts."""
        if self.failure is None:
            self.failure = error

    def all_over(self) -> None:
        """Main has ended: waits for the other threads. Raises the error of a thread that no thread has joined."""

    def journal_of(self, error: BaseException) -> Journal:
        """Returns the journal of the thread that raised an error."""
        return self.journal

    def cut(self) -> None:
        """The rank has ended, in whatever way: from now on only main acts."""

    def stop(self, seconds: float) -> bool:
        """As `cut`. Returns whether all other threads have ended within that time."""
        return True

    def _drain(self) -> None:
        for stream in self.streams.values():
            stream._drain()

    def break_off(self, process_group: Any) -> None:
        """Lets the device end its running work. Does not wait."""
        self._device.abort([process_group])

    @property
    def aborted(self) -> bool:
        """Whether the rank has aborted a communicator."""
        return any(one.aborted for one in (*self.hosts.values(), *self.devices.values()))  # type: ignore[attr-defined]

    def close(self) -> None:
        self.closed = True
        for stream in self.streams.values():
            stream.close()

    def _stream(self, name: str) -> Stream:
        return self._device.stream(self, name)

    def _graph(self, name: str, pool: GraphPool) -> JournaledGraph:
        return self._device.graph(self, name, pool)

    def _flag(self, name: str) -> JournaledFlag:
        return RealFlag(self.journal, name, self.patience)

    def _start(self, name: str, program: ThreadProgram) -> JournaledThread:
        raise AssertionError("a program without threads was refused")

    def _post(self, to: int, mailbox: str, message: Frozen, delay_ns: int) -> None:
        if not 0 <= to < self._size:
            raise ValueError(
                f"rank {self.rank} sends to the mailbox {mailbox!r} of rank {to}; there are ranks 0 to {self._size - 1}"
            )
        source = self.journal.here()
        self.patience.sleep(delay_ns)
        self.mail.post(to, mailbox, message, self.patience, source)

    def _from_outside(self, number: int, message: Message) -> None:
        source = outside(self.rank), "", message.mailbox, number
        self.mail.post(message.to, message.mailbox, message.content, self.patience, source)

    def _watch(self, actor: int, mailbox: str) -> None:
        self.mail.watch(actor, mailbox, self.journal.here())

    def _take(self, mailbox: str, how: str, delay_ns: int, timeout_ns: int | None) -> Outcome:
        return taking(self, mailbox, how, timeout_ns, delay_ns)

    def handed_out(self, store: RealStore) -> RealStore:
        """Returns the store in the form in which a program gets it."""
        return store

    def _open_store(self, port: int) -> Outcome:
        return self.stores.opening(self, port, self.mail.job)

    def _join_store(self, node: int, port: int, timeout_ns: int | None) -> Outcome:
        return self.stores.joining(self, node, port, timeout_ns, self.mail.job)

    def _sleep(self, ns: int) -> Outcome:
        def outcome() -> Generator[Any, Any, None]:
            if ns:
                self.patience.sleep(ns)
            else:
                time.sleep(0)  # other threads may run meanwhile
            return
            yield

        return outcome


class CollectiveError(RuntimeError):
    """A device collective or transfer failed. `seq`: the number of the collective on the communicator; None for a
    transfer.
    """

    @classmethod
    def of(cls, communicator: str, seq: int | None, rank: int, issue: Issue, error: BaseException) -> CollectiveError:
        address = communicator if seq is None else f"{communicator} #{seq}"
        return cls(f"{issue.op} {issue.dtype}[{issue.count}] on {address} of rank {rank}: {error}")


def flat(buffer: Buffer) -> Any:
    """Returns the buffer's tensor, in one dimension."""
    return tensor(buffer).view(-1)


def arguments(call: KernelCall) -> tuple[list[Any], list[Any]]:
    """Returns the tensors that a kernel reads, and those that it writes. For each tensor to read, `was_written` detects
    only writes through that tensor.
    """
    return [tensor(buffer).data for buffer in call.reads], [tensor(buffer) for buffer in call.writes]


def was_written(read: Any) -> bool:
    """Whether a kernel wrote a tensor that it may only read."""
    return bool(read._version)


def tensor(buffer: Buffer) -> Any:
    """Returns the tensor of a buffer. Raises TypeError for a buffer of another backend."""
    if isinstance(buffer, RealBuffer) and buffer.base is None:
        return buffer._whole
    return of_this_backend(buffer, RealBuffer).tensor
