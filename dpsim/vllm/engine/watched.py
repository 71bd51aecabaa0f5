"""The program `engine_watched`: the engines of `engine`, and everybody learns of a death, an exception, a shutdown.

    protocol: {name: engine_watched}
    faults: [{kind: die, rank: 1, at: {site: dp.agree, ordinal: 2}}]

Every wait ends: nobody may wait for ever, not even an idle engine, so whoever is left behind is a hang. A front end
whose engine is gone is no longer healthy: it gives each request an error, those that it did not send yet too, and ends
with EngineDeadError, which names who is gone. The others do the same. A run in which nobody dies ends as that of
`engine`, but the front ends stay until their engines and the coordinator have left.

What front ends can do beside what those of `engine` can: ("SHUTDOWN",) ends all engines in the middle of their steps;
requests under way end with an error. To wait for them and then to stop is the usual end, the drain.

Sources: specification chapter 9 (I-ST-10); museum area 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from dpsim.contract.interface import Frozen
from dpsim.contract.ops import KIND, SITE, RawRecord
from dpsim.vllm.engine.answers import OUTPUTS
from dpsim.vllm.engine.coordination import Sent
from dpsim.vllm.engine.coordinator import Coordinator
from dpsim.vllm.engine.deaths import DEATHS, EngineDeadError, children, parents
from dpsim.vllm.engine.frontend import Action, FrontEnd
from dpsim.vllm.engine.layout import COORDINATOR
from dpsim.vllm.engine.loop import EngineLoop
from dpsim.vllm.engine.monitor import Monitor

ANSWERED, FAILED, UNHEALTHY = "frontend.answered", "frontend.failed", "frontend.unhealthy"


class WatchedLoop(EngineLoop):
    """One engine. What it raises itself it tells the front ends; when it is killed the machine does."""

    idle = False
    monitor: ClassVar[type[Monitor]] = Monitor

    async def run(self) -> None:
        monitor = self.monitor(self.rank, self.layout)
        monitor.watch()
        if self.layout.coordinated:
            self.rank.watch(self.rank.service(COORDINATOR), "input", "engine.watch")
        thread = self.rank.start("monitor", monitor.run)
        try:
            await super().run()
        except Exception:
            self.fail()
            why = await monitor.settled(thread)
            if not why:
                raise
            if not monitor.shut_down:
                raise EngineDeadError(f"engine {self.index} ends: {why}") from None
            self.leave(True)
            return
        self.leave(False)
        await thread.join("monitor.join")

    async def take(self, message: Frozen) -> None:
        match message:
            case ("GONE",):
                raise EngineDeadError("the monitor has given up")
            case "gone", int(other):
                if not self.stops:
                    raise EngineDeadError(f"engine {self.index} ends: {self.layout.actor(other)} is gone")
            case _:
                await super().take(message)

    def fail(self) -> None:
        """All requests end with an error. Front ends hear by a message, too, that this engine ends, as vLLM's do."""
        for request, client in self.scheduler.abort_all():
            self.rank.send(self.layout.frontend(client), OUTPUTS, ("FAILED", request), "engine.failed")
        for parent in parents(self.layout):
            self.rank.send(parent, OUTPUTS, ("ENGINE_CORE_DEAD", self.rank.rank), "engine.dead")

    def leave(self, shut_down: bool) -> None:
        """In order: the others and the front ends do not take it for a death, and the own monitor ends."""
        for engine in range(self.layout.size):
            self.rank.send(self.layout.rank(engine), DEATHS, ("LEFT", self.rank.rank), "engine.left")
        for parent in parents(self.layout):
            self.rank.send(parent, OUTPUTS, ("LEFT", self.rank.rank), "engine.left_parent")


class WatchedCoordinator(Coordinator):
    """A front end that is gone has not stopped in order, for it would have waited for this coordinator."""

    idle = False

    async def run(self) -> None:
        for parent in parents(self.layout):
            self.rank.watch(parent, "events", "coordinator.watch")
        await super().run()
        for parent in parents(self.layout):
            self.rank.send(parent, OUTPUTS, ("LEFT", self.rank.rank), "coordinator.left")

    def take(self, event: Frozen) -> list[Sent]:
        match event:
            case "gone", int(parent):
                raise EngineDeadError(f"the coordinator ends: {self.layout.actor(parent)} is gone")
        return super().take(event)


class WatchedFrontEnd(FrontEnd):
    """The parent of engines and coordinator. `healthy`: what its health says; `left`: who is gone; `leaving`: who said
    before that it leaves in order; `owed`: requests that have neither an answer nor an error yet, also those that were
    not sent.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.healthy = True
        self.stopping = False
        self.shutting_down = False
        self.left: set[int] = set()
        self.leaving: set[int] = set()
        self.owed = {str(action[1]) for action in self.actions if action[0] == "ADD"}

    async def run(self) -> None:
        try:
            self.watch()
            await super().run()
            while len(self.left) < len(children(self.layout)):
                await self.hear()
        except Exception:
            self.fail()
            assert not self.owed, f"front end {self.index} ends and owes {sorted(self.owed)} an answer or an error"
            raise

    def watch(self) -> None:
        for child in children(self.layout):
            self.rank.watch(child, OUTPUTS, "frontend.watch")

    async def act(self, action: Action) -> None:
        match action:
            case ("SHUTDOWN",):
                self.shut_down()
            case ("DRAIN",):
                for child in children(self.layout):
                    self.rank.watch(child, "stats", "frontend.watch_drain")
                await super().act(action)
            case _:
                await super().act(action)

    def take(self, message: Frozen) -> None:
        match message:
            case "gone", int(child):
                self.gone(child)
            case "LEFT", int(child):
                self.leaving.add(child)
            case "ENGINE_CORE_DEAD", int(engine):
                self.dead(engine)
            case "FAILED", str(request):
                self.failed(request)
            case "FINISHED", str(request):
                if request in self.owed:
                    self.owed.discard(request)
                    self.rank.probe(ANSWERED)
                super().take(message)
            case _:
                super().take(message)

    def learn(self, state: Frozen) -> None:
        match state:
            case "gone", int(child):
                self.gone(child)
            case _:
                super().learn(state)

    def gone(self, child: int) -> None:
        """In order only for one that said so and when all is to end; then its requests end, too."""
        if child not in self.leaving:
            self.stopping = self.shutting_down
        self.dead(child)
        self.left.add(child)
        for request in sorted(self.awaited):
            if self.layout.rank(self.engines[request]) == child:
                self.failed(request)

    def dead(self, child: int) -> None:
        """Raises EngineDeadError, unless all are to end."""
        if not self.stopping:
            raise EngineDeadError(f"front end {self.index} ends: {self.layout.actor(child)} is gone")

    def failed(self, request: str) -> None:
        """An error to the client that waits for it."""
        self.ended(request)
        if request in self.owed:
            self.owed.discard(request)
            self.rank.probe(FAILED)

    def abort(self, request: str) -> None:
        """Its client has gone, and gets nothing."""
        super().abort(request)
        self.owed.discard(request)

    def fail(self) -> None:
        """No request is left without an answer, and health says false."""
        self.healthy = False
        self.rank.probe(UNHEALTHY)
        for request in sorted(self.owed):
            self.failed(request)

    def shut_down(self) -> None:
        """All engines end now, whatever they are doing; what was not sent yet ends with an error at once."""
        self.stopping = self.shutting_down = True
        self.aborted_on.clear()
        self.actions.clear()
        for request in sorted(self.owed - self.awaited):
            self.failed(request)
        for engine in range(self.layout.size):
            self.rank.send(self.layout.rank(engine), DEATHS, ("SHUTDOWN",), "frontend.shutdown")

    def stop(self) -> None:
        self.stopping = True
        super().stop()


def requests_text(journals: Sequence[Sequence[RawRecord]]) -> str:
    """What became of all requests."""
    sites = [raw[SITE] for journal in journals for raw in journal if raw[KIND] == "probe"]
    return f"{sites.count(ANSWERED)} answered, {sites.count(FAILED)} failed"
