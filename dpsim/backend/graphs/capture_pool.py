"""How a capture uses its graph's memory pool: allocations, frees, and the scratch memory of kernels."""

from __future__ import annotations

from dpsim.backend.graphs.branches import Captured
from dpsim.backend.graphs.kept import KeptAlloc, KeptCall, KeptFree
from dpsim.backend.journal.journal import Journal
from dpsim.backend.memory.buffers import JournaledBuffer
from dpsim.backend.memory.pools import GraphPool, PoolMemory, Scratch


class CapturePool:
    """The part of a `GraphCapture` that buffers call."""

    def __init__(self, journal: Journal, pool: GraphPool) -> None:
        self.journal = journal
        self.pool = pool
        self.calls: list[KeptCall] = []
        self.memories: list[PoolMemory] = []
        self.under_way = True
        self._shared: list[PoolMemory] = []
        self._late: list[tuple[JournaledBuffer, PoolMemory]] = []
        self._scratch: dict[str, list[Scratch]] = {}

    def took(self, stream: Captured, buffer: JournaledBuffer, address: tuple[str, int, str]) -> None:
        """The program allocated a buffer from the graph's pool."""
        self.valid(address[0])
        memory = buffer.held = PoolMemory(self, self.pool, stream.home, address).of(buffer)
        memory.pool.take(memory, self.journal, new=True)
        self.memories.append(memory)
        self.calls.append(KeptAlloc(stream.name, address[0], address[2], memory))

    def gave_back(self, buffer: JournaledBuffer, memory: PoolMemory, where: str) -> None:
        """The program freed a buffer of the graph. If another stream uses the buffer, its memory returns to the pool
        only after the capture. The allocator cannot query a stream that is captured (c10's CUDACachingAllocator,
        `deferred blocks`).
        """
        memory.freed(where)
        if memory in self._shared:
            self._late.append((buffer, memory))
        else:
            memory.give_back()
            buffer._release()
            self.calls.append(KeptFree("", memory.site, where, memory))

    def used(self, memory: PoolMemory) -> None:
        """The program called `record_stream` for memory of the graph."""
        self._shared.append(memory)

    def scratch(self, stream: Captured, site: str, where: str) -> list[tuple[Scratch, int]]:
        """The scratch that a kernel allocates for itself, and the pool's count. All kernels of a stream share it."""
        scratch = self._scratch.get(stream.home)
        if scratch is None:
            address = site, self.journal.ordinal, where
            scratch = [Scratch(self, self.pool, stream.home, address, small) for small in (True, False)]
            self._scratch[stream.home] = scratch
            self.memories += scratch
            return [(one, one.first) for one in scratch]
        now = self.pool.tick()
        return [(one, now) for one in scratch]

    def valid(self, site: str) -> None:
        """Raises CaptureError if the capture is invalid."""

    def release_late(self) -> None:
        """After the capture: returns memory that other streams used to the pool."""
        for buffer, memory in self._late:
            memory.give_back()
            buffer._release()
