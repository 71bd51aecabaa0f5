"""The participants of `startup_watched`: as in `startup`, but parents watch the processes of their children for deaths.

    protocol: {name: startup_watched}
    faults: [{kind: die, rank: 1, at: {site: profile.experts, ordinal: 0}}]

    participant    watches                                        and then
    front end      coordinator and engines of its node            fails, and leaves
    engine core    its workers, the front end of its node         fails, tells the others, and leaves
    coordinator    the first front end                            stops
    worker         its engine core, by a thread (death pipe)      aborts all communicators, and stops

A parent notices a death while other participants are blocked, even if it waits for another child (invariant I-ST-10).
It then ends the other workers, so that none waits for the dead one in a collective. On one node, a parent waits for
answers without a time-out while its children live, as in vLLM. With several nodes, a parent cannot watch processes of
other nodes, and has the time-outs of the program `startup`.

Answers and notices of deaths arrive in one mailbox, so a parent waits for all at once. vLLM polls the handshake socket
together with the sentinels of its processes.

Simplified: no notice ends a wait at a port. If a member of a group dies while the members meet there, the others wait
until their time-out, and then report the death. In vLLM the engine core ends its workers at once.

Sources: specification 9.2 and 9.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpsim.contract.interface import Aborted, Frozen, Rank, Store
from dpsim.vllm.startup.conversation import Child, Parent, content
from dpsim.vllm.startup.coordinator import Coordinator
from dpsim.vllm.startup.engine import EngineCore
from dpsim.vllm.startup.errors import NobodyCame, OneFailed, Stopped
from dpsim.vllm.startup.frontend import FrontEnd, NodeFrontEnd
from dpsim.vllm.startup.layout import COORDINATOR, FRONTEND, Layout, engine_name, frontend_name, worker_name
from dpsim.vllm.startup.participant import Participant
from dpsim.vllm.startup.worker import StartupWorker

ANSWERS, DEATH_PIPE = "answers", "death_pipe"
DIED = "Died"
"""This text replaces the name of an error if the machine reports that the process is gone."""


def died(layout: Layout, number: int) -> OneFailed:
    return OneFailed(layout.name(number), DIED, "its process is gone")


class Teller(Child):
    """A child's side: it sends its answers as messages."""

    def __init__(self, rank: Rank, parent: int, store: Store, name: str) -> None:
        super().__init__(store, name)
        self._rank = rank
        self._parent = parent

    def _answer(self, answer: Frozen, site: str) -> None:
        self._rank.send(self._parent, ANSWERS, (self.name, answer), site)


class Sentinels(Parent):
    """A parent's side: one mailbox receives the messages of all children, and the notices of all deaths."""

    def __init__(self, rank: Rank, layout: Layout, *given: Any, **words: Any) -> None:
        super().__init__(*given, **words)
        self._answers = rank.mailbox(ANSWERS)
        self._layout = layout
        self._pending: dict[str, list[Frozen]] = {}

    async def receive(self, child: str, doing: str, timeout_ns: int) -> Frozen:
        [answer] = await self.receive_all([child], doing, timeout_ns)
        return answer

    async def receive_all(self, children: Sequence[str], doing: str, timeout_ns: int) -> list[Frozen]:
        """The next answer of each child, in whatever order they arrive. Raises the first failure or death."""
        bound = timeout_ns if self._layout.num_nodes > 1 else None
        while missing := [child for child in children if not self._pending.get(child)]:
            match await self._answers.get(f"hear.{doing}", timeout_ns=bound):
                case None:
                    raise self.missing(missing[0], doing, timeout_ns)
                case "gone", int(number):
                    raise died(self._layout, number)
                case str(child), answer:
                    self._pending.setdefault(child, []).append(content(answer))
        return [self._pending[child].pop(0) for child in children]


class Watching(Participant):
    """A participant that receives notices of deaths in the same mailbox as its children's answers."""

    def watched(self) -> tuple[str, ...]:
        """The participants that it watches: its children and its parent, on its own node."""
        return ()

    async def run(self) -> None:
        for name in self.watched():
            self.rank.watch(self.layout.number(name), ANSWERS, "sentinel.watch")
        await super().run()

    async def come_up(self) -> None:
        """Do everything before serving. Raises OneFailed instead of NobodyCame if a watched participant is gone."""
        try:
            await super().come_up()  # type: ignore[safe-super]
        except NobodyCame:
            answers = self.rank.mailbox(ANSWERS)
            while (answer := await answers.poll("sentinel.look")) is not None:
                match answer:
                    case "gone", int(number):
                        raise died(self.layout, number) from None
            raise

    def line_to(self, who: str, store: Store) -> Child:
        return Teller(self.rank, self.layout.number(who), store, self.name)

    def lines_at(self, store: Store, **words: Any) -> Parent:
        return Sentinels(self.rank, self.layout, store, self.name, **words)

    def of_node(self) -> tuple[str, ...]:
        return tuple(engine_name(engine) for engine in self.layout.engines_of(self.rank.node))


class WatchingFrontEnd(Watching, FrontEnd):
    def watched(self) -> tuple[str, ...]:
        return *self.of_node(), *[COORDINATOR] * (self.layout.engines > 1)


class WatchingNodeFrontEnd(Watching, NodeFrontEnd):
    def watched(self) -> tuple[str, ...]:
        return self.of_node()


class WatchedCoordinator(Watching, Coordinator):
    def watched(self) -> tuple[str, ...]:
        return (FRONTEND,)

    async def run(self) -> None:
        self.rank.watch(self.layout.number(FRONTEND), "events", "sentinel.watch")
        await super().run()


class WatchingEngine(Watching, EngineCore):
    def watched(self) -> tuple[str, ...]:
        return *map(worker_name, self.layout.workers(self.engine)), frontend_name(self.rank.node)

    async def serve(self) -> None:
        """Serve. The engine also watches the coordinator: if it dies before START, the notice arrives instead of
        START.
        """
        if self.layout.engines > 1:
            self.rank.watch(self.layout.number(COORDINATOR), "start", "sentinel.watch_coordinator")
        await super().serve()
        for worker in self.layout.workers(self.engine):
            self.rank.send(worker, DEATH_PIPE, ("up",), "death_pipe.up")

    def take_start(self, start: Frozen) -> None:
        match start:
            case "gone", int(number):
                raise died(self.layout, number)


class WatchedWorker(Watching, StartupWorker):
    """Its second thread waits for the end of the engine core, while main may be in a collective. None without peers."""

    def watched(self) -> tuple[str, ...]:
        return (engine_name(self.layout.engine_of(self.rank.rank)),)

    async def run(self) -> None:
        if self.layout.topology.world_size == 1:
            await super().run()
            return
        [engine] = self.watched()
        self.rank.watch(self.layout.number(engine), DEATH_PIPE, "death_pipe")
        thread = self.rank.start("death_pipe", self.death_pipe)
        await super().run()
        await thread.join("death_pipe.join")

    async def death_pipe(self, rank: Rank) -> None:
        """The program of the second thread. It ends with the engine core, and aborts all communicators if the core has
        died.
        """
        match await rank.mailbox(DEATH_PIPE).get("death_pipe.notice", idle=True):
            case "gone", int():
                for kind, domain, _ in self.kinds.communicators():
                    group = rank.device(kind) if domain == "device" else rank.host(kind)
                    group.abort(site=f"death_pipe.abort_{kind}")

    async def come_up(self) -> None:
        try:
            await super().come_up()
        except Aborted:
            raise Stopped from None
