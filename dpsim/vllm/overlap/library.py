"""The workspaces that a library (such as cuBLAS) allocates at its first call, for each thread and stream (specification
4.8).

A library allocates a workspace at its first call, and the host waits for the allocation. A capture forbids this wait.
Therefore the threads of a capture call the library for both streams before the capture begins. Each step starts new
threads. The library keeps the handle of a thread that ends, and the next one of this number uses its workspaces.
"""

from __future__ import annotations

from dpsim.contract.interface import Buffer, Rank, Stream


class Library:
    """The handles of one rank, one for each thread name."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.workspaces: dict[tuple[str, str], Buffer] = {}

    async def workspace(self, stream: Stream) -> Buffer:
        """The workspace of the calling thread on `stream`. It allocates one at the first call, and the host waits."""
        key = self.rank.thread, stream.name
        if key not in self.workspaces:
            await stream.record().synchronize("library.touch")
            self.workspaces[key] = stream.alloc(1, "int32", "library.workspace")
        return self.workspaces[key]

    def leave(self) -> None:
        """Keep the handle of the calling thread, which is about to end, for the next thread with its name."""
