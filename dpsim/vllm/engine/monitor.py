"""The monitor of an engine: a host thread that receives notices of deaths, and then frees the main thread from its
waits.

    main      watch, start monitor   forward ... all_reduce ...... Aborted: fail all requests, EngineDeadError
    monitor   get .............................. ("gone", 1): abort all communicators, ("GONE", ...) to the input queue

When a participant dies, the monitor aborts all communicators, so that a wait in one of them raises Aborted. It also
sends a message to the input queue. The monitor receives:

    ("gone", actor)     from the machine: end this engine, unless the actor has announced its end with LEFT
    ("LEFT", actor)     from an engine that ends normally; from its own main thread: the monitor ends
    ("SHUTDOWN",)       from a front end: end this engine in the middle of any operation, without an error

Sources: the monitor thread of vLLM's front ends, the death pipe of its workers.
"""

from __future__ import annotations

from typing import ClassVar

from dpsim.contract.interface import Aborted, Rank
from dpsim.vllm.engine.deaths import DEATHS, parents
from dpsim.vllm.engine.layout import Layout


class Freed(RuntimeError):
    """The main thread received ("GONE",) while it waited for a message."""


FREED = (Aborted, Freed)
"""The exceptions with which the monitor ends the main thread. If the main thread raises another exception, it keeps
this one, even if the monitor receives a notice a moment later.
"""


class Monitor:
    """The monitor of one engine. `why`: the reason to end, or "". `shut_down`: a front end asked for it.

    The main thread waits for messages in `boxes`, and in the communicators `hosts` and `devices`.
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
        """Watch every participant whose death has to end this engine."""
        for other in self.watched():
            self.rank.watch(other, DEATHS, "monitor.watch")

    def watched(self) -> tuple[int, ...]:
        engines = [self.layout.rank(engine) for engine in range(self.layout.size)]
        return *[engine for engine in engines if engine != self.rank.rank], *parents(self.layout)

    async def run(self, rank: Rank) -> None:
        """The program of the host thread."""
        self.why = await self.wait_for_end(rank)
        if self.why:
            self.abort(rank)
            for box in self.boxes:
                rank.send(rank.rank, box, ("GONE",), "monitor.gone")

    async def wait_for_end(self, rank: Rank) -> str:
        """Wait for a reason to end, and return it; "" if this engine itself ends normally."""
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
        """Abort all communicators of the engine, because the main thread may wait in any of them."""
        for kind in self.hosts:
            rank.host(kind).abort(site=f"monitor.abort_{kind}")
        self.abort_devices(rank)

    def abort_devices(self, rank: Rank) -> None:
        for kind in self.devices:
            rank.device(kind).abort(site=f"monitor.abort_{kind}")
