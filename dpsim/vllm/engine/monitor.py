"""The monitor of an engine: a host thread that is told who is gone, and frees the main thread from its waits.

    main      watch, start monitor   forward ... all_reduce ...... Aborted: fail all requests, EngineDeadError
    monitor   get .............................. ("gone", 1): abort all communicators, ("GONE", ...) to the input queue

The main thread waits in one of two places: in a communicator, where it gets Aborted, or at its input queue, where it
gets the message. So it ends, whoever is gone and whenever. What comes to the monitor:

    ("gone", actor)     from the machine: it gives up, unless the actor has left in order
    ("LEFT", actor)     an engine leaves in order; from the own main thread: the monitor ends
    ("SHUTDOWN",)       from a front end: it gives up in the middle of whatever is done, and that is in order

Sources: the monitor thread of vLLM's front ends, the death pipe of its workers; museum area 6.
"""

from __future__ import annotations

from typing import ClassVar

from dpsim.contract.interface import Rank, Thread
from dpsim.vllm.engine.deaths import DEATHS, parents
from dpsim.vllm.engine.layout import Layout


class Monitor:
    """Of one engine. `why`: what it gave up for, "" as long as it did not; `shut_down`: and that was in order.

    `boxes`: where its main thread waits for messages; `hosts`, `devices`: in which communicators.
    """

    boxes: ClassVar[tuple[str, ...]] = ("input",)
    hosts: ClassVar[tuple[str, ...]] = ("dp_cpu", "dp_engine")
    devices: tuple[str, ...] = ("ep", "dp")

    def __init__(self, rank: Rank, layout: Layout) -> None:
        self.rank = rank
        self.layout = layout
        self.why = ""
        self.shut_down = False

    def watch(self) -> None:
        """Everybody whose end has to end this engine."""
        for other in self.watched():
            self.rank.watch(other, DEATHS, "monitor.watch")

    def watched(self) -> tuple[int, ...]:
        engines = [self.layout.rank(engine) for engine in range(self.layout.size)]
        return *[engine for engine in engines if engine != self.rank.rank], *parents(self.layout)

    async def run(self, rank: Rank) -> None:
        """The host thread."""
        self.why = await self.told(rank)
        if self.why:
            self.abort(rank)
            for box in self.boxes:
                rank.send(rank.rank, box, ("GONE",), "monitor.gone")

    async def settled(self, thread: Thread) -> str:
        """Called by a main thread that fails: why the monitor gave up, "" if the failure came first.

        The monitor may learn of a death at the same moment. Its end comes before the answer.
        """
        self.rank.send(self.rank.rank, DEATHS, ("LEFT", self.rank.rank), "monitor.failing")
        await thread.join("monitor.settled")
        return self.why

    async def told(self, rank: Rank) -> str:
        """Why to give up; "" if this engine leaves in order."""
        notices, left = rank.mailbox(DEATHS), set()
        while True:
            match await notices.get("monitor.notice", idle=True):
                case "LEFT", int(engine):
                    if engine == rank.rank:
                        return ""
                    left.add(engine)
                case "gone", int(other) if other not in left:
                    return f"{self.layout.actor(other)} is gone"
                case ("SHUTDOWN",):
                    self.shut_down = True
                    return "shut down"

    def abort(self, rank: Rank) -> None:
        """All communicators of the engine: the main thread may stand in any of them."""
        for kind in self.hosts:
            rank.host(kind).abort(site=f"monitor.abort_{kind}")
        self.abort_devices(rank)

    def abort_devices(self, rank: Rank) -> None:
        for kind in self.devices:
            rank.device(kind).abort(site=f"monitor.abort_{kind}")
