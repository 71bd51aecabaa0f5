"""What a library allocates for each thread and stream that uses it, at first use (specification 4.8).

The first call of a thread on a stream makes a workspace, for which the host waits: no capture allows that. So the
threads of a capture touch the library for both streams before it begins. A thread of a later step, which is another one
of the same number, finds the handle of the one before it, and with it the workspaces.
"""

from __future__ import annotations

from dpsim.contract.interface import Buffer, Rank, Stream


class Library:
    """The handles of one rank: one a thread name, as handles go back to where the next thread takes its own from."""

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
        """The calling thread is about to end. Its handle is kept for the next one."""
