"""The coordinator during the start: engines subscribe to it, and it sends START only to those that have subscribed
before.

    subscribe (each engine)  ->  READY, when all D have subscribed
    first                    ->  START of the wave, to all subscribers

An engine that subscribes after START does not get this START. So the coordinator publishes READY when all engines have
subscribed, and no engine serves before READY (invariant I-ST-9, mutants M-ST-11 and M-ST-12).

Sources: specification chapter 2, and 9.2 (steps 1 and 19).
"""

from __future__ import annotations

from dpsim.vllm.startup.errors import Stopped
from dpsim.vllm.startup.layout import FRONTEND, engine_name
from dpsim.vllm.startup.participant import Participant


class Coordinator(Participant):
    """The coordinator. Only a start with several replicas (data-parallel engines) has one."""

    async def come_up(self) -> None:
        parent = await self.child_of(FRONTEND, *await self.spawned())
        self.rank.step = 1
        store = await self.open(0, "store_of_coordinator")
        parent.report((store.node, store.port), "address")
        self.rank.step = 19
        events, subscribed = self.rank.mailbox("events"), list[int]()
        while True:
            event = await events.get("events", idle=True)
            assert isinstance(event, tuple)
            what, number = event
            assert isinstance(number, int)
            if what in ("stop", "gone"):  # gone: its front end, in the middle of the start
                raise Stopped
            if what == "subscribe":
                subscribed.append(number)
                store.set(
                    "subscribed", tuple(sorted(subscribed)), "subscribed"
                )  # an engine whose wait times out reads it for its error
                if len(subscribed) == self.expected():
                    store.set("ready", True, "ready")
            else:
                self.start(number, subscribed)
                return

    def expected(self) -> int:
        """The number of engines that have to subscribe before READY."""
        return self.layout.engines

    def start(self, wave: int, subscribed: list[int]) -> None:
        """Send START to the engines that have subscribed."""
        for engine in sorted(subscribed):
            name = engine_name(engine)
            self.rank.send(self.rank.service(name), "start", wave, f"start.{name}")
