"""What a graph's calls are made of: their memory and the names of their streams, now or in a replay."""

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
    """What issues collectives and transfers of a graph."""

    name: str
    places: int

    def _put(self, issues: list[Issue], output: Buffer, source: Buffer, stream: Any) -> None: ...
    def _move(self, issues: list[Issue], buffer: Buffer, stream: Any) -> None: ...
    def _open(self, stream: Any) -> None: ...
    def _close(self, stream: Any) -> None: ...


class Target(Protocol):
    """A stream on which a graph's calls go out."""

    name: str

    def _spin(self, ns: int) -> None: ...
    def _launch(self, call: KernelCall) -> None: ...
    def _record(self, number: int, joins: bool = ...) -> Any: ...
    def _wait(self, event: Any) -> None: ...
    def _wait_flag(self, flag: Any) -> None: ...


class CallMemory:
    """The memory of a call as records name it, now or later."""

    __slots__ = ("_parts", "fixed", "scratch")

    def __init__(self, buffers: Sequence[Buffer], tags: bool = True) -> None:
        """`tags`: whether the versions count that these buffers are named with."""
        named = refs(buffers)
        self._parts: list[tuple[PoolMemory | None, Any]] = [
            (one.held, ref if tags else ref[:3])  # type: ignore[attr-defined]
            for one, ref in zip(buffers, named, strict=True)
        ]
        self.fixed: Refs | None = None
        """What it is at all times; None if some of it is a pool's."""
        if all(held is None for held, _ in self._parts):
            self.fixed = tuple([ref for _, ref in self._parts])
        self.scratch: list[tuple[Scratch, int]] = []
        """What the call writes besides, of the graph's pool, and when it was captured, by the pool's count."""

    def now(self) -> Refs:
        """As it is named by a call that is kept, or made again."""
        if self.fixed is not None:
            return self.fixed
        return tuple([ref if held is None else (held.ref(), *ref[1:]) for held, ref in self._parts])

    def takes(self) -> bool:
        """Whether a replay has to ask what the scratch overwrites. Each call of each replay asks: so no generators."""
        for one, at in self.scratch:
            if at == one.first:
                return True
            for other in one.pool.loose:
                if other.released < at:
                    return True
            break  # the other kind of blocks has the same pool
        return False

    def again(self, journal: Journal) -> Refs:
        """As it is named by a replay, with the scratch."""
        scratch = [ref for one, at in self.scratch for ref in one.refs(journal, at)]
        return (*self.now(), *scratch) if scratch else self.now()


class Names(dict[str, str]):
    """Of each stream of a capture: the name of the stream on which its calls go out in a replay. A dict, since each
    call asks for one.
    """

    def __init__(self, graph: str, origin: str, target: str) -> None:
        """The captured stream goes out on the target; what joined it, on branches of the graph."""
        super().__init__({origin: target})
        self.graph = graph

    def __missing__(self, stream: str) -> str:
        name = self[stream] = f"{stream}@{self.graph}"
        return name


class Replaying(ABC):
    """A replay under way."""

    journal: Journal
    issues: bool
    """Whether the calls are to be issued one by one."""
    names: Names
    marks: dict[Any, tuple[int, Any]]
    """Of each event that the capture recorded: the number that it has in this replay, and the event."""

    @abstractmethod
    def on(self, stream: str) -> Target:
        """That stream."""
