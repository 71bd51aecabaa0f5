"""A front end as a service: it is an API server that sends its clients' requests to the engines. Its actions:

    ADD       choose an engine, and send it the request with the wave of this front end. In 0.14, also inform the
              coordinator, if the engines are idle in the view of this front end
    ABORT     send an abort to both queues of the engine, and do not wait for the request any more
    PAUSE     and other calls: send the call to all engines, and wait until each has answered or reported an error
    DRAIN     wait until the coordinator reports that the engines do not run
    WAIT      wait for all requests so far

Before a front end sends a request, it reads the messages of the coordinator; these may be out of date. At the end, the
front end waits for all its requests, and sends STOP. If one never starts, the run hangs. A message ("CONTROL", what,
...) to the mailbox "outputs" adds an action during the run.

Sources: specification 2.1 and 2.5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from dpsim.contract.interface import NO_STEP, Frozen, Rank
from dpsim.vllm.config import EngineConfig
from dpsim.vllm.engine.answers import OUTPUTS
from dpsim.vllm.engine.client import ClientView
from dpsim.vllm.engine.coordination import FirstRequest
from dpsim.vllm.engine.layout import COORDINATOR, Layout
from dpsim.vllm.engine.scheduler import RequestId
from dpsim.vllm.params.arguments import Request

Action = tuple[Frozen, ...]
"""A word and its arguments: ("ADD", "r0", 5), ("ABORT", "r0"), ("PAUSE", "keep"), ("RESUME",), ("WAIT",)."""


class Plan:
    """The actions of all front ends. `control`: actions of front end 0 besides its requests, with their times in ns."""

    control: ClassVar[Sequence[tuple[int, Action]]] = ()

    def __init__(self, requests: Sequence[Request], frontends: int) -> None:
        self.requests = requests
        self.frontends = frontends

    def frontend(self, request: int) -> int:
        """The front end of a request. Requests go to the front ends in turn."""
        return request % self.frontends

    def of(self, frontend: int) -> list[Action]:
        """The actions of one front end, sorted by time. At equal times, requests come first."""
        timed: list[tuple[int, Action]] = []
        for number, request in enumerate(self.requests):
            if self.frontend(number) == frontend:
                timed.append((request.arrival_ns, ("ADD", f"r{number}", request.length)))
                if request.abort_ns is not None:
                    timed.append((request.abort_ns, ("ABORT", f"r{number}")))
        timed += self.control if frontend == 0 else ()
        return [action for _, action in sorted(timed, key=lambda one: one[0])]


MAX_NUM_SEQS: int = EngineConfig.model_fields["max_num_seqs"].default


KNOWN = "; ".join(
    (
        *("PAUSE or SLEEP with abort, wait or keep", "RESUME, WAKE_UP, ECHO, WAIT or DRAIN"),
        *("UPDATE_WEIGHTS with a version", "ADD with a name and a number of steps", "ABORT with a name"),
    )
)


class UnknownControl(ValueError):
    """A message has an action that front ends do not have, or wrong arguments."""


class WrongLoad(AssertionError):
    """The coordinator published counts that no engine can have."""


class FrontEnd:
    """The service. `index`: its number. `actions`: what it does. `max_num_seqs`: how many requests an engine runs at a
    time.
    """

    def __init__(
        self,
        rank: Rank,
        layout: Layout,
        index: int,
        view: ClientView,
        actions: Sequence[Action],
        max_num_seqs: int = MAX_NUM_SEQS,
    ) -> None:
        self.rank = rank
        self.max_num_seqs = max_num_seqs
        self.layout = layout
        self.index = index
        self.view = view
        self.actions = list(actions)
        self.outputs = rank.mailbox(OUTPUTS)
        self.stats = rank.mailbox("stats")
        self.engines: dict[RequestId, int] = {}
        self.awaited: set[RequestId] = set()
        self.aborted_on: set[int] = set()
        self.unanswered = 0

    async def run(self) -> None:
        """Do all actions, wait for all outputs, and send STOP."""
        self.rank.step = NO_STEP  # a front end waits for steps of engines, so reports show those first
        await self.settle()
        for engine in sorted(self.aborted_on):
            await self.ask([engine], "ECHO")
        self.stop()

    async def settle(self) -> None:
        """Do all actions, and wait for all outputs."""
        while self.actions or self.awaited:
            if self.actions:
                await self.act(self.actions.pop(0))
            else:
                await self.hear()

    async def act(self, action: Action) -> None:
        """Do one action. It does not wait for outputs, except in WAIT. Raises UnknownControl."""
        match action:
            case "ADD", str(request), int(steps):
                await self.add(request, steps)
            case "ABORT", str(request):
                self.abort(request)
            case ("WAIT",):
                while self.awaited:
                    await self.hear()
            case ("DRAIN",):
                await self.look()
                while self.view.engines_running:
                    self.learn(await self.stats.get("frontend.drain"))
            case (("PAUSE" | "SLEEP"), ("abort" | "wait" | "keep")) | (("RESUME" | "WAKE_UP" | "ECHO"),):
                await self.ask(range(self.layout.size), str(action[0]), *action[1:])
            case "UPDATE_WEIGHTS", int():
                await self.ask(range(self.layout.size), *action)  # type: ignore[arg-type]
            case _:
                raise UnknownControl(f"front end {self.index} cannot do {action!r}; expected {KNOWN}")

    async def add(self, request: RequestId, steps: int) -> None:
        """Send a request to an engine. In some releases, also inform the coordinator."""
        await self.look()
        engine, wave, first = self.view.send()
        self.engines[request] = engine
        self.awaited.add(request)
        self.to(engine, ("ADD", request, steps, wave, self.index), "frontend.add")
        if first is not None and self.layout.coordinated:
            self.first_request(first)

    def first_request(self, event: FirstRequest) -> None:
        self.rank.send(self.rank.service(COORDINATOR), "events", ("FIRST_REQ", *event), "frontend.first_request")

    def abort(self, request: RequestId) -> None:
        """Send an abort to both queues of the engine: it reads one right after its model has run, the other among its
        messages. The engine sends no answer.
        """
        engine = self.engines[request]
        self.rank.send(self.layout.rank(engine), "abort", (request,), "frontend.abort")
        self.to(engine, ("ABORT", (request,)), "frontend.abort_in_order")
        self.ended(request)
        self.aborted_on.add(engine)

    def ended(self, request: RequestId) -> None:
        """Record that a request has its last output, or was aborted. Later messages about it have no effect."""
        if request in self.awaited:
            self.awaited.remove(request)
            self.view.ended(self.engines[request])

    async def ask(self, engines: Sequence[int], what: str, *arguments: Frozen) -> None:
        """Send a call to engines, and wait until all have answered."""
        for engine in self.asked(engines, what):
            self.to(engine, (what, self.index, *arguments), f"frontend.{what.lower()}")
            self.unanswered += 1
        while self.unanswered:
            await self.hear()

    def asked(self, engines: Sequence[int], what: str) -> Sequence[int]:
        """The engines to which this front end sends a call: all of `engines`."""
        return engines

    def to(self, engine: int, message: Frozen, site: str) -> None:
        """Send a message to the input queue of an engine."""
        self.rank.send(self.layout.rank(engine), "input", message, site)

    async def hear(self) -> None:
        """Wait for the next message of an engine, and process it. The run hangs if none arrives."""
        self.take(await self.outputs.get("frontend.output"))

    def take(self, message: Frozen) -> None:
        match message:
            case "FINISHED", str(request):
                self.ended(request)
            case ("ANSWERED", str()) | ("REFUSED", str(), str()):
                self.unanswered -= 1
            case "CONTROL", *action:
                self.actions.append(tuple(action))
            case _:
                raise TypeError(f"front end {self.index} knows no message {message!r}")

    async def look(self) -> None:
        """Read all messages that the coordinator has sent so far, without waiting."""
        if self.layout.coordinated:
            while (state := await self.stats.poll("frontend.stats")) is not None:
                self.learn(state)

    def learn(self, state: Frozen) -> None:
        match state:
            case [counts, int(wave), bool(running)]:
                self.view.update_counts(counts, wave, running)  # type: ignore[arg-type]
                if counts is not None:
                    self.look_through()
            case _:
                raise TypeError(f"front end {self.index} knows no state {state!r}")

    def look_through(self) -> None:
        """Check the published counts. Raises WrongLoad if an engine runs more requests than `max_num_seqs`. If there is
        only this front end, also raises WrongLoad if an engine has more requests than this front end sent.
        """
        sent = Counter(self.engines.values())
        for engine, (waiting, running, *_) in self.view.load.items():
            if running > self.max_num_seqs:
                words = f"{running} requests run on engine {engine}; expected at most {self.max_num_seqs}"
                raise WrongLoad(f"front end {self.index} hears that {words}")
            if self.view.clients == 1 and waiting + running > sent[engine]:
                words = f"{waiting + running} requests, and was sent {sent[engine]}"
                raise WrongLoad(f"front end {self.index} hears that engine {engine} has {words}")

    def stop(self) -> None:
        """Send STOP, the last message of this front end."""
        if self.layout.coordinated:
            self.rank.send(self.rank.service(COORDINATOR), "events", ("STOP",), "frontend.stop")
        else:
            self.to(0, ("STOP",), "frontend.stop")
