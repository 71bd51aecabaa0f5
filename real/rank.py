"""The contract on torch: a rank of a real world, its memory, mailboxes and sleep; see `real.host_calls`, too."""

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
    """What the ranks of a process compute on: a CPU or a CUDA device. One for the life of a worker."""

    spoiled = False
    """Whether something was left that only a new process is without."""

    @abstractmethod
    def connect(self, spec: CommunicatorSpec, store: Any, index: int) -> Any:
        """Make a process group for collectives on this device. Blocks until every member has called it."""

    def prepare(self, world: World) -> None:  # noqa: B027  # most have nothing to do
        """Before a job begins: what its programs must not wait for."""

    @abstractmethod
    def stream(self, rank: RealRank, name: str) -> RealStream:
        """A stream for the rank."""

    @abstractmethod
    def communicator(self, rank: RealRank, group: Group) -> DeviceCommunicator:
        """A device communicator for the rank."""

    @abstractmethod
    def graph(self, rank: RealRank, name: str, pool: GraphPool) -> JournaledGraph:
        """A graph for the rank."""

    def thread(self) -> AbstractContextManager[object]:
        """Within it a host thread other than main runs its program."""
        return nullcontext()

    def polling(self) -> AbstractContextManager[object]:
        """Within it a host thread asks again and again how far the device is, where others may capture."""
        return nullcontext()

    @abstractmethod
    def clear(self) -> None:
        """A job has ended, and nothing runs any more: keep nothing of its graphs."""

    @abstractmethod
    def abort(self, process_groups: Iterable[Any]) -> None:
        """Begin to end what runs on these process groups. Does not wait; may be called twice, and from any thread."""

    @abstractmethod
    def is_idle(self, seconds: float) -> bool:
        """Whether aborts are through and nothing runs any more, within that time: the device can be used again. All
        graphs are dropped.
        """

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """For the header of a trace."""


class RealStream(JournaledStream):
    """A stream that ends with its job."""

    __slots__ = ("rank",)

    def __init__(self, rank: RealRank, name: str) -> None:
        super().__init__(rank.journal, name)
        self.rank = rank

    @abstractmethod
    def _drain(self) -> None:
        """Wait until all that was put on the stream is done; raise what went wrong in it."""

    @abstractmethod
    def close(self) -> None:
        """Nothing more will be put on the stream. Does not wait."""


class RealBuffer(JournaledBuffer):
    """A torch tensor, or rows of one.

    Memory is taken until it is freed or the job ends, even if the program has lost the buffer. So places in the journal
    do not overlap by themselves. A view holds no tensor, which would keep freed memory alive.
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
        """Of a buffer that has not been freed."""
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
        """The memory of a graph, without a claim on it."""
        return self._whole


class RealRank(ReachingRank):
    """One rank of a real world, for one job."""

    __slots__ = ("_device", "_size", "broken", "closed", "failure", "mail", "maker", "patience", "stores", "taken")

    maker: JobGroups
    lacked = ""
    """What the machine took away from a host thread other than main."""

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
        """Buffers that have not been freed."""
        self.failure: BaseException | None = None
        """The first error of any of its streams, where these are threads."""
        self.closed = False
        """The job is over."""
        for group in groups:
            if group.spec.domain == "host":
                self.hosts[group.spec.kind] = GlooHostCommunicator(journal, patience, group)
            else:
                self.devices[group.spec.kind] = device.communicator(self, group)

    def _make(self, specs: GroupSpecs, issues: list[Issue]) -> Outcome:
        return make(self, self._device, specs, issues)

    def fail(self, error: BaseException) -> None:
        """Called by a stream. The first error counts."""
        if self.failure is None:
            self.failure = error

    def all_over(self) -> None:
        """Main has ended: wait for the other threads. Raises what one of them raised and no thread has joined."""

    def journal_of(self, error: BaseException) -> Journal:
        """That of the thread which raised it."""
        return self.journal

    def cut(self) -> None:
        """The rank is over, however that came about: main alone does anything from now on."""

    def stop(self, seconds: float) -> bool:
        """The same. Whether all other threads are gone, within that time."""
        return True

    def _drain(self) -> None:
        """The implied device synchronise at the end of a program."""
        for stream in self.streams.values():
            stream._drain()

    def break_off(self, process_group: Any) -> None:
        """Have the device end what runs on it. Does not wait."""
        self._device.abort([process_group])

    @property
    def aborted(self) -> bool:
        """Whether it has aborted a communicator."""
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
        """The store as a program gets it."""
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
                time.sleep(0)  # other threads may run
            return
            yield

        return outcome


class CollectiveError(RuntimeError):
    """A device collective or transfer failed: what it was, on which communicator of which rank. Of a collective `seq`
    is its position there; None for a transfer.
    """

    @classmethod
    def of(cls, communicator: str, seq: int | None, rank: int, issue: Issue, error: BaseException) -> CollectiveError:
        address = communicator if seq is None else f"{communicator} #{seq}"
        return cls(f"{issue.op} {issue.dtype}[{issue.count}] on {address} of rank {rank}: {error}")


def flat(buffer: Buffer) -> Any:
    """The buffer's tensor, in one dimension."""
    return tensor(buffer).view(-1)


def arguments(call: KernelCall) -> tuple[list[Any], list[Any]]:
    """The tensors that a kernel reads, and those that it writes. Each of the former counts only its own writes
    (`was_written`), not those through other tensors on the same memory.
    """
    return [tensor(buffer).data for buffer in call.reads], [tensor(buffer) for buffer in call.writes]


def was_written(read: Any) -> bool:
    """Whether a kernel wrote a tensor that it was given to read."""
    return bool(read._version)


def tensor(buffer: Buffer) -> Any:
    """Raises TypeError for a buffer of another backend."""
    if isinstance(buffer, RealBuffer) and buffer.base is None:
        return buffer._whole
    return of_this_backend(buffer, RealBuffer).tensor
