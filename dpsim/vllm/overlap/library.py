"""Memory that a library allocates at first use, for each thread and stream (specification 4.8).

The first call of a thread on a stream allocates a workspace, for which the host waits: no capture allows that. So the
threads of a capture touch the library for both streams before it begins. The thread of a later step is another one, but
has the same number. It finds the handle of the one before it, and with it the workspaces.
"""

from __future__ import annotations

from dpsim.contract.interface import Buffer, Rank, Stream


class Library:
    """The handles of one rank, one for each thread name. A thread returns its handle, and the next one takes it."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.workspaces: dict[tuple[str, str], Buffer] = {}

    async def workspace(self, stream: Stream) -> Buffer:
        """Scratch memory of the calling thread on that stream."""
        key = self.rank.thread, stream.name
        if key not in self.workspaces:
            await stream.record().synchronize("library.touch")
            self.workspaces[key] = stream.alloc(1, "int32", "library.workspace")
        return self.workspaces[key]

    def leave(self) -> None:
        """Keep the handle of the calling thread, which is about to end, for the next one."""
