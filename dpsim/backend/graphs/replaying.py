"""The memory and the stream names of a graph's calls, at the capture and in a replay."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

from dpsim.backend.graphs.kernel_call import KernelCall
from dpsim.backend.journal.issue import Issue
from dpsim.backend.journal.journal import Journal
from dpsim.backend.memory.buffers import refs
from dpsim.backend.memory.pools import PoolMemory, Scratch
from dpsim.contract.interface import Buffer
from dpsim.contract.ops import Refs


class Communicator(Protocol):
    """The methods of a communicator that issue a graph's collectives and transfers."""

    name: str
    places: int

    def _put(self, issues: list[Issue], output: Buffer, source: Buffer, stream: Any) -> None: ...
    def _move(self, issues: list[Issue], buffer: Buffer, stream: Any) -> None: ...
    def _open(self, stream: Any) -> None: ...
    def _close(self, stream: Any) -> None: ...


class Target(Protocol):
    """A stream on which a replay issues calls."""

    name: str

    def _spin(self, ns: int) -> None: ...
    def _launch(self, call: KernelCall) -> None: ...
    def _record(self, number: int, joins: bool = ...) -> Any: ...
    def _wait(self, event: Any) -> None: ...
    def _wait_flag(self, flag: Any) -> None: ...


class CallMemory:
    """The memory of a kept call, as records name it, at the capture or in a replay."""

    __slots__ = ("_parts", "fixed", "scratch")

    def __init__(self, buffers: Sequence[Buffer], tags: bool = True) -> None:
        """`tags`: whether the version tags of these buffers count."""
        named = refs(buffers)
        self._parts: list[tuple[PoolMemory | None, Any]] = [
            (one.held, ref if tags else ref[:3])  # type: ignore[attr-defined]
            for one, ref in zip(buffers, named, strict=True)
        ]
        self.fixed: Refs | None = None
        """The names of the memory if they never change; None if some memory belongs to a pool."""
        if all(held is None for held, _ in self._parts):
            self.fixed = tuple([ref for _, ref in self._parts])
        self.scratch: list[tuple[Scratch, int]] = []
        """Scratch memory of the pool that the call also writes, with the pool's count at the capture."""

    def now(self) -> Refs:
        """Returns the present names of the memory, for the capture or a replay."""
        if self.fixed is not None:
            return self.fixed
        return tuple([ref if held is None else (held.ref(), *ref[1:]) for held, ref in self._parts])

    def takes(self) -> bool:
        """Whether scratch may overwrite memory. Each call of each replay asks this, so it avoids generators."""
        for one, at in self.scratch:
            if at == one.first:
                return True
            for other in one.pool.loose:
                if other.released < at:
                    return True
            break  # the entry for the other block size has the same pool
        return False

    def again(self, journal: Journal) -> Refs:
        """Returns the names of the memory in a replay, including scratch."""
        scratch = [ref for one, at in self.scratch for ref in one.refs(journal, at)]
        return (*self.now(), *scratch) if scratch else self.now()


class Names(dict[str, str]):
    """The stream of a replay for each stream of a capture. A dict for speed, since each call reads it."""

    def __init__(self, graph: str, origin: str, target: str) -> None:
        """Maps the captured stream to the target; streams that joined become branches of the graph."""
        super().__init__({origin: target})
        self.graph = graph

    def __missing__(self, stream: str) -> str:
        name = self[stream] = f"{stream}@{self.graph}"
        return name


class Replaying(ABC):
    """A replay in progress."""

    journal: Journal
    issues: bool
    """Whether the backend issues the calls one by one."""
    names: Names
    marks: dict[Any, tuple[int, Any]]
    """For each event that the capture recorded: its number in this replay, and the event."""

    @abstractmethod
    def on(self, stream: str) -> Target:
        """Returns the stream on which the replay issues calls of this stream of the capture."""
