"""The coordinator as a service: it reads messages from its mailbox, and sends wakes and the state of the group.

    ("start_wave", engine, wave)       ("wave_complete", engine, wave)     from engines
    ("FIRST_REQ", engine, wave)        ("STOP",)                           from front ends
    ("counts", engine, step, wave, waiting, running, usage)                from engines, usage since 0.28
    ("ECHO", client)                   from an engine, back to the client: the group has seen all its messages

In the engine, the coordinator waits up to 100 ms for a message before it publishes counts. Here it publishes them as
soon as its mailbox is empty; an exploration tries both orders. Simplified: the engine also repeats its last message
every five seconds.

When all front ends have sent STOP, the coordinator sends STOP to all engines and ends. An engine ends when it has STOP
and is idle. It receives STOP after every wake, because the coordinator sends both.

Source: specification 2.5.
"""

from __future__ import annotations

from typing import ClassVar

from dpsim.contract.interface import Frozen, Mailbox, Rank
from dpsim.vllm.engine.coordination import Coordination, Sent, StartDpWave
from dpsim.vllm.engine.layout import Layout


class Coordinator:
    """The service. `state`: the rules and the state of the group. `idle`: whether it may wait without end."""

    idle: ClassVar[bool] = True

    def __init__(self, rank: Rank, layout: Layout, state: Coordination) -> None:
        self.rank = rank
        self.layout = layout
        self.state = state

    async def run(self) -> None:
        """Process messages until all front ends have sent STOP."""
        events, stopped = self.rank.mailbox("events"), 0
        while stopped < self.layout.frontends:
            event = await self.next_event(events)
            if event == ("STOP",):
                stopped += 1
                continue
            for sent in self.take(event) if event is not None else self.state.published():
                self.send(sent)
        for engine in range(self.layout.size):
            self.rank.send(self.layout.rank(engine), "input", ("STOP",), "coordinator.stop")

    async def next_event(self, events: Mailbox) -> Frozen:
        """The next message; None if there is none and the coordinator has counts to publish."""
        if self.state.unpublished:
            return await events.poll("coordinator.while")
        return await events.get("coordinator.event", idle=self.idle)

    def take(self, event: Frozen) -> list[Sent]:
        """Process a message. Returns the messages that follow from it. Raises TypeError for an unknown one."""
        match event:
            case "start_wave", int(engine), int(wave):
                return self.state.start_wave(engine, wave)
            case "wave_complete", int(engine), int(wave):
                return self.state.wave_complete(engine, wave)
            case "FIRST_REQ", int(engine), int(wave):
                return self.state.first_request(engine, wave)
            case "counts", int(engine), int(step), int(wave), int(waiting), int(running), *usage:
                return self.state.counts(engine, step, wave, waiting, running, *usage)  # type: ignore[arg-type]
            case "ECHO", int(client):
                self.rank.send(self.layout.frontend(client), "outputs", ("ANSWERED", "ECHO"), "coordinator.echo")
                return []
        raise TypeError(f"the coordinator knows no event {event!r}")

    def send(self, sent: Sent) -> None:
        """Send a message to all engines, or to all front ends."""
        message = sent.message
        if isinstance(message, StartDpWave):
            for engine in self.wakes(message):
                self.rank.send(self.layout.rank(engine), "input", ("START_DP_WAVE", *message), "coordinator.start")
        else:
            for client in range(self.layout.frontends):
                self.rank.send(self.layout.frontend(client), "stats", tuple(message), "coordinator.state")

    def wakes(self, message: StartDpWave) -> range:
        """The engines that receive a wake: all, even the one that the message excludes."""
        return range(self.layout.size)
