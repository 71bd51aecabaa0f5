"""The program `engine_watched`: as `engine`, but each participant notices the death of another one, and ends.

    protocol: {name: engine_watched}
    faults: [{kind: die, rank: 1, at: {site: dp.agree, ordinal: 2}}]

In `engine_watched`, no wait may last without end, not even that of an idle engine. If an engine dies, its front end
answers each unfinished request with an error, also those that it has not sent yet. It then raises EngineDeadError,
which names the dead engine.

One more action of front ends, ("SHUTDOWN",), ends all engines in the middle of their steps; unfinished requests end
with an error. The normal end is a drain: it waits for all requests.

Sources: specification chapter 9 (invariant I-ST-10).
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
from dpsim.vllm.engine.monitor import FREED, Freed, Monitor

ANSWERED, FAILED, UNHEALTHY = "frontend.answered", "frontend.failed", "frontend.unhealthy"


class WatchedLoop(EngineLoop):
    """It reports its own exceptions to the front ends; the machine reports a kill."""

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
        except FREED:
            self.fail()
            await thread.join("monitor.join")  # the main thread reads `why` only after the monitor has ended
            if not monitor.shut_down:
                raise EngineDeadError(f"engine {self.index} ends: {monitor.why}") from None
            self.leave(shut_down=True)
        except Exception:
            self.fail()
            raise
        else:
            self.leave(shut_down=False)
            await thread.join("monitor.join")

    async def take(self, message: Frozen) -> None:
        match message:
            case ("GONE",):
                raise Freed
            case "gone", int(other):
                if not self.stops:
                    raise EngineDeadError(f"engine {self.index} ends: {self.layout.actor(other)} is gone")
            case _:
                await super().take(message)

    def fail(self) -> None:
        """End all requests with an error, and send the front ends a message that this engine ends, as vLLM does."""
        for request, client in self.scheduler.abort_all():
            self.rank.send(self.layout.frontend(client), OUTPUTS, ("FAILED", request), "engine.failed")
        for parent in parents(self.layout):
            self.rank.send(parent, OUTPUTS, ("ENGINE_CORE_DEAD", self.rank.rank), "engine.dead")

    def leave(self, shut_down: bool) -> None:
        """Announce that this engine ends normally. The others then do not take its end for a death, and its own monitor
        ends.
        """
        for engine in range(self.layout.size):
            self.rank.send(self.layout.rank(engine), DEATHS, ("LEFT", self.rank.rank), "engine.left")
        for parent in parents(self.layout):
            self.rank.send(parent, OUTPUTS, ("LEFT", self.rank.rank), "engine.left_parent")


class WatchedCoordinator(Coordinator):
    """A front end that is gone has died: otherwise it would have waited for the coordinator."""

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
    """The parent of engines and coordinator. `healthy`: what it reports to its clients. `left`: who is gone.

    `leaving`: who announced a normal end. `owed`: requests without answer or error, also those not yet sent.
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
        """A child is gone. This is normal if the child announced it and the front end has asked for the end.

        The requests on this child end with an error. Raises EngineDeadError unless the end is normal.
        """
        if child not in self.leaving:
            self.stopping = self.shutting_down
        self.dead(child)
        self.left.add(child)
        for request in sorted(self.awaited):
            if self.layout.rank(self.engines[request]) == child:
                self.failed(request)

    def dead(self, child: int) -> None:
        """Raises EngineDeadError, unless all children are to end."""
        if not self.stopping:
            raise EngineDeadError(f"front end {self.index} ends: {self.layout.actor(child)} is gone")

    def failed(self, request: str) -> None:
        """Answer a request with an error."""
        self.ended(request)
        if request in self.owed:
            self.owed.discard(request)
            self.rank.probe(FAILED)

    def abort(self, request: str) -> None:
        """Drop a request whose client is gone. It gets no answer."""
        super().abort(request)
        self.owed.discard(request)

    def fail(self) -> None:
        """Answer all requests with an error, and report that this front end is not healthy."""
        self.healthy = False
        self.rank.probe(UNHEALTHY)
        for request in sorted(self.owed):
            self.failed(request)

    def shut_down(self) -> None:
        """End all engines at once, in the middle of their steps. Requests that are not sent yet end with an error."""
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
    """The number of requests with an answer, and of those with an error, as text."""
    sites = [raw[SITE] for journal in journals for raw in journal if raw[KIND] == "probe"]
    return f"{sites.count(ANSWERED)} answered, {sites.count(FAILED)} failed"
