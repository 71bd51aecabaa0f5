"""A device made of CPU threads, for the gloo backend. CI tests everything but CUDA with it.

Memory is torch tensors in main memory. A stream is a daemon thread with a FIFO queue, whose entries are kernels,
copies, collectives, events and waits for them. So the host runs ahead as it does on a GPU, and a collective that lacks
a member blocks its stream and not its host. (It would be simpler to run each operation when the host issues it, but
then programs would hang that never hang on a GPU.)

A communicator that several streams use keeps the order of issue, as NCCL does. Every operation takes a *ticket* when
the host issues it, and its stream's thread waits for the ticket's turn. An entry that fails stops all streams of the
rank. They skip later entries, and the host gets the error at its next read or synchronize, as from CUDA.

This backend cannot show that a program reuses freed memory too early. Python frees memory only when the last queued op
that uses it has ended. The graphs of a pool share no memory either, so a later graph does not overwrite the memory of
an earlier one. Only the journals show such mistakes.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dpsim.backend.calls.graphs import JournaledGraph
from dpsim.backend.journal.issue import Issue
from dpsim.backend.memory.buffers import of_this_backend
from dpsim.backend.memory.pools import GraphPool
from dpsim.contract.interface import Buffer, DeviceCommunicator, Stream
from dpsim.contract.world import CommunicatorSpec
from real import gloo_calls
from real.abandoned import ended
from real.communicators import Group
from real.cpu_streams import CpuStream
from real.lazy import FirstUse
from real.rank import CollectiveError, RealBuffer, RealDevice, RealRank, RealStream, flat
from real.waiting import Unfinished, peer_gone

POLL_SECONDS = 500e-6
"""The interval at which a stream's thread checks whether its communicator was aborted."""

TURN_SECONDS = 0.1
"""The interval at which a thread that waits for its turn checks whether its rank has failed."""


class CpuDevice(RealDevice):
    """The CPU as a device. A stuck operation cannot be ended, so its daemon thread and its group are abandoned."""

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(1)  # several ranks share the cores

    def connect(self, spec: CommunicatorSpec, store: Any, index: int) -> Any:
        return gloo_calls.connect_gloo(spec, store, index)

    def stream(self, rank: RealRank, name: str) -> RealStream:
        return CpuStream(rank, name)

    def communicator(self, rank: RealRank, group: Group) -> DeviceCommunicator:
        return CpuCommunicator(rank, group)

    def graph(self, rank: RealRank, name: str, pool: GraphPool) -> JournaledGraph:
        return CpuGraph(rank, name, pool)

    def clear(self) -> None:
        pass

    def abort(self, process_groups: Iterable[Any]) -> None:
        pass

    def is_idle(self, seconds: float) -> bool:
        return True

    def versions(self) -> dict[str, str]:
        import torch

        return {"torch": torch.__version__, "numpy": np.__version__}


class Turns:
    """Orders the operations of one communicator as the host issued them."""

    def __init__(self, rank: RealRank) -> None:
        self._rank = rank
        self._tickets = 0
        self._serving = 0
        self._moved = threading.Condition()

    def take(self, entry: Callable[[], None]) -> Callable[[], None]:
        """Returns the stream entry for a ticket: the stream's thread waits in it for its turn."""
        ticket = self._tickets
        self._tickets += 1

        def run() -> None:
            with self._moved:
                while self._serving != ticket:
                    if self._rank.failure is not None:  # the stream may have skipped the entry before
                        return
                    self._moved.wait(TURN_SECONDS)
            entry()
            with self._moved:
                self._serving += 1
                self._moved.notify_all()

        return run


class CpuCommunicator(FirstUse):
    """Collectives and transfers over a separate gloo group, each an entry of its stream."""

    __slots__ = ("_gloo", "_moves", "_rank", "_seq", "_turns")

    def __init__(self, rank: RealRank, group: Group) -> None:
        super().__init__(rank.journal, group, rank.patience)
        self._rank = rank
        self._gloo = group
        self._turns = Turns(rank)
        self._seq = 0
        self._moves: list[tuple[Issue, Any]] | None = None

    def _put(self, issues: list[Issue], output: Buffer, source: Buffer, stream: Stream) -> None:
        if self.aborted:  # only a graph replay reaches this line after an abort
            raise self.error(self.name)
        if self.made is not None:
            self.made.meet(self.ranks)
        given, wanted = flat(source), flat(output)
        for issue in issues:
            self._enter([(issue, given, given if source is output else wanted)], stream, self._seq)
            self._seq += 1

    def _move(self, issues: list[Issue], buffer: Buffer, stream: Stream) -> None:
        if self.aborted:
            raise self.error(self.name)
        memory = flat(buffer)
        for issue in issues:
            if self.made is not None:
                self.made.meet(self.makes(issue))
            if self._moves is None:
                self._enter([(issue, memory, memory)], stream)
            else:
                self._moves.append((issue, memory))

    def _open(self, stream: Stream) -> None:
        self._moves = []

    def _close(self, stream: Stream) -> None:
        moves, self._moves = self._moves or [], None
        self._enter([(issue, memory, memory) for issue, memory in moves], stream)

    def _enter(self, parts: list[tuple[Issue, Any, Any]], stream: Stream, seq: int | None = None) -> None:
        on = of_this_backend(stream, CpuStream)
        late = sum(issue.delay_ns for issue, _, _ in parts)
        if late:
            on._spin(late)

        def run() -> None:
            if self.aborted:
                on.broken = True
            if not parts or self.aborted:
                return
            issue = parts[0][0]
            try:
                pending = []
                for issue, source, output in parts:
                    pending.append(gloo_calls.start(self._gloo, issue, source, output))
                for (issue, _, _), work in zip(parts, pending, strict=True):  # noqa: B007  # named in the error
                    if self.journal.shared.aborts:
                        self._until(ended(work, lambda: self.aborted))
                    if not self.aborted:
                        work.wait()
                    on.broken |= self.aborted
            except (RuntimeError, ValueError) as error:
                lost = isinstance(error, RuntimeError) and peer_gone(error)
                if lost and self.journal.shared.aborts:
                    self._until(lambda: self.aborted)
                if self.aborted:
                    on.broken = True
                    return
                if lost:
                    raise Unfinished from error
                raise CollectiveError.of(self.name, seq, self.journal.rank, issue, error) from error

        on.put(self._turns.take(run))

    def _until(self, ready: Callable[[], bool]) -> None:
        while not ready():
            if self._rank.closed:
                raise Unfinished
            time.sleep(POLL_SECONDS)

    def _abort(self) -> None:
        """Does nothing: threads of streams check `aborted`, and gloo itself continues (see `real.host_calls`)."""


class CpuGraph(JournaledGraph):
    """A graph on a device without graphs: a replay puts the calls on the streams' queues again.

    A kept call refers to the tensors of its capture, as a CUDA graph refers to addresses. If the program frees them,
    the replay still uses them, and the checks report it.
    """

    __slots__ = ()

    def frozen(self, buffer: Buffer) -> Buffer:
        own: RealBuffer = of_this_backend(buffer, RealBuffer)
        bound = copy.copy(own)
        bound.base, bound._whole = None, own.tensor
        return bound
