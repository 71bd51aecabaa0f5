"""The contract on torch: a rank of a real world and its host communicators; the rest is the device's.

A host collective goes out over gloo on a copy of the array, on both backends, as inference engines do it. It starts
at once, on a thread of gloo; the await waits for it. A *skipped* one has nothing to wait for and gives its own input.
An *altered* one goes out with the count and type that it announces, and what comes back is copied as far as it fits:
gloo takes a difference of size for a reason to end the process, and that is then what happens on this backend.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeAlias

import numpy as np

from dpsim.interface import DeviceCommunicator, HostArray, Stream
from dpsim.journal import Issue, Journal
from dpsim.journaled import JournaledHostCommunicator, JournaledRank, JournaledStream, resized
from dpsim.world import CommunicatorSpec
from real.communicators import Group
from real.waiting import Patience

Outcome: TypeAlias = Callable[[], Generator[Any, Any, HostArray]]


class Device(ABC):
    """What the ranks of a process compute on: a CPU or a CUDA device. One for the life of a worker."""

    @abstractmethod
    def connect(self, spec: CommunicatorSpec, store: Any, index: int) -> Any:
        """Make a process group for collectives on this device. Blocks until every member has called it."""

    @abstractmethod
    def stream(self, rank: RealRank, name: str) -> RealStream:
        """A stream for the rank."""

    @abstractmethod
    def communicator(self, rank: RealRank, group: Group) -> DeviceCommunicator:
        """A device communicator for the rank."""

    @abstractmethod
    def abort(self, process_groups: Iterable[Any]) -> None:
        """Begin to end what runs on these process groups. Does not wait; may be called twice, and from any thread."""

    @abstractmethod
    def is_idle(self, seconds: float) -> bool:
        """Whether aborts are through and nothing runs any more, within that time: the device can be used again."""

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """For the header of a trace."""


class RealStream(JournaledStream):
    """A stream that ends with its job."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until all that was put on the stream is done; raise what went wrong in it."""

    @abstractmethod
    def close(self) -> None:
        """Nothing more will be put on the stream. Does not wait."""


class RealRank(JournaledRank):
    """One rank of a real world, for one job."""

    def __init__(self, journal: Journal, device: Device, groups: Iterable[Group], patience: Patience) -> None:
        super().__init__(journal)
        self._device = device
        self.patience = patience
        for group in groups:
            if group.spec.domain == "host":
                self.hosts[group.spec.kind] = GlooHostCommunicator(self, group)
            else:
                self.devices[group.spec.kind] = device.communicator(self, group)

    def _stream(self, name: str) -> Stream:
        return self._device.stream(self, name)

    def synchronize(self) -> None:
        """The implied device synchronise at the end of a program."""
        for stream in self.streams.values():
            stream.synchronize()

    def close(self) -> None:
        for stream in self.streams.values():
            stream.close()


class GlooHostCommunicator(JournaledHostCommunicator):
    """Host collectives over gloo."""

    def __init__(self, rank: RealRank, group: Group) -> None:
        super().__init__(rank.journal, group.spec)
        self._patience = rank.patience
        self._group = group

    def _start(self, issues: list[Issue], array: HostArray) -> Outcome:
        import torch

        result, last = np.array(array, order="C"), None
        for issue in issues:
            self._patience.sleep(issue.delay_ns)
            wire = resized(array, issue) if issue.altered else np.array(array, order="C")
            last = self._group.issue(issue, torch.from_numpy(wire.reshape(-1)), asynchronous=True)

        def outcome() -> Generator[Any, Any, HostArray]:
            if last is not None:
                self._patience.work(last)
                flat = result.reshape(-1)
                size = min(flat.size, wire.size)
                flat[:size] = wire.reshape(-1)[:size]
            return result
            yield  # a generator, as the contract has it, that never suspends

        return outcome


class KernelError(RuntimeError):
    """A kernel raised. Of the same name and text as the simulation's, so that journals agree."""

    def __init__(self, name: str, rank: int, site: str, ordinal: int, error: BaseException) -> None:
        super().__init__(f"kernel {name} of rank {rank} {site}[{ordinal}]: {type(error).__name__}: {error}")


class CollectiveError(RuntimeError):
    """A device collective failed. Named by its second address, the communicator and its sequence number."""

    def __init__(self, communicator: str, seq: int, rank: int, issue: Issue, error: BaseException) -> None:
        super().__init__(f"{issue.op} {issue.dtype}[{issue.count}] on {communicator} #{seq} of rank {rank}: {error}")


def resized_tensor(flat: Any, issue: Issue) -> tuple[Any, int]:
    """A tensor with the count and type that an altered collective announces, and how much of `flat` it holds."""
    import torch

    wire = torch.zeros(issue.count, dtype=getattr(torch, issue.dtype), device=flat.device)
    size = min(issue.count, flat.numel())
    wire[:size].copy_(flat[:size])
    return wire, size
