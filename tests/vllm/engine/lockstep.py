"""A group of engines, a coordinator and front ends, without a simulated machine, driven by random choices.

    trouble_in(World(Release033, Coordination033, ClientView033, size=3, clients=2, interval=4), seed=7)   # "" if none

Messages between two participants keep their order and have any delay. An engine that begins a forward waits until all
engines have begun it; the same holds for a resume. One choice delivers a message, begins a forward, or makes a call of
a client. Each channel has a random speed, because with equal speeds hardly any message would arrive late. When no
choice is left, all work must be done.

The group checks these invariants of specification 2.10:

    I-EL-1, I-EL-13   all engines sync in the same steps, and have the same step counters
    I-EL-3, I-EL-5    all engines compute the same verdict; waves only grow, and end on all engines
    I-EL-6, I-EL-7    no wave ends while an engine has work, and no wake is lost
    I-EL-8, I-EL-9    no paused engine wakes, and a pause of some engines does not stop the group
    I-EL-11           at the end, the coordinator has the same state as its engines
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from dpsim.vllm.engine.client import ClientView
from dpsim.vllm.engine.coordination import Coordination, StartDpWave
from dpsim.vllm.engine.waves import EngineWaves, Out, PauseMode, PauseState

Label = str | tuple[Any, Any]
"""The label of a choice: a channel, or an action."""


class World(NamedTuple):
    """A group and its workload. `waves`: one class for each rank, or one for all.

    `interval` is the number of steps between two sync points. `requests` and `pauses` are the most of a history.
    """

    waves: type[EngineWaves] | tuple[type[EngineWaves], ...]
    coordination: type[Coordination]
    client: type[ClientView]
    size: int = 2
    clients: int = 1
    interval: int = 3
    requests: int = 3
    pauses: int = 1


class Trouble(AssertionError):
    """A rule does not hold in a history."""


@dataclass
class Engine:
    """An engine of the group. `work` has for each request the remaining steps, and whether it has begun.

    `at` is "loop", "forward" or "barrier".
    """

    waves: EngineWaves
    work: list[tuple[int, bool]] = field(default_factory=list)
    at: str = "loop"
    was_running: bool = False

    def may_run(self, begun: bool) -> bool:
        state = self.waves.pause_state
        return state is PauseState.UNPAUSED or (state is PauseState.PAUSED_NEW and begun)

    @property
    def unfinished(self) -> bool:
        return any(self.may_run(begun) for _, begun in self.work)

    def step(self) -> None:
        """Runs one step, in which at most two requests advance."""
        ran = [one for one in self.work if self.may_run(one[1])][:2]
        for one in ran:
            self.work.remove(one)
        self.work = [(steps - 1, True) for steps, _ in ran if steps > 1] + self.work


class Group:
    """One history of a group. `draws` makes the random choices."""

    def __init__(self, world: World, draws: random.Random) -> None:
        self.world, self.draws = world, draws
        kinds = world.waves if isinstance(world.waves, tuple) else (world.waves,) * world.size
        self.engines = [Engine(kind(rank, world.size, True, world.interval)) for rank, kind in enumerate(kinds)]
        self.coordinator = world.coordination(world.size)
        self.clients = [world.client(range(world.size), one, world.clients) for one in range(world.clients)]
        self.channels: dict[tuple[Any, Any], deque[tuple[Any, ...]]] = defaultdict(deque)
        self.requests, self.pauses, self.paused = world.requests, world.pauses, False
        self.weights = defaultdict[Label, float](lambda: 8.0 ** -draws.randrange(4))
        self.waves_before = [0] * world.size
        self.forwards = 0

    def run(self) -> None:
        while choices := self._choices():
            labels = list(choices)
            (label,) = self.draws.choices(labels, [self.weights[one] for one in labels])
            choices[label]()
            waves = [engine.waves.current_wave for engine in self.engines]
            demand(all(now >= before for now, before in zip(waves, self.waves_before, strict=True)), "a wave went back")
            self.waves_before = waves
        self._end()

    # ---- what can happen next

    def _choices(self) -> dict[Label, Callable[[], None]]:
        at = {engine.at for engine in self.engines}
        if at == {"forward"}:
            return {"iterate": self._iterate}
        if at == {"barrier"}:
            return {"resumed": self._resumed}
        choices: dict[Label, Callable[[], None]] = {}
        for (source, to), channel in self.channels.items():
            if channel and (not isinstance(to, int) or self.engines[to].at == "loop"):
                choices[source, to] = partial(self._deliver, source, to)
        for rank, engine in enumerate(self.engines):
            if engine.at == "loop" and (engine.waves.engines_running or engine.unfinished):
                choices["forward", rank] = partial(setattr, engine, "at", "forward")
        if self.requests:
            choices["request"] = self._request
        if self.pauses and not self.paused and not any(one.waves.ignore_start_dp_wave for one in self.engines):
            choices["pause"] = self._pause
        if self.paused and all(one.waves.ignore_start_dp_wave and self._idle(one) for one in self.engines):
            choices["resume"] = self._resume
        return choices

    def _idle(self, engine: Engine) -> bool:
        return engine.at == "loop" and not engine.waves.engines_running

    # ---- clients

    def _request(self) -> None:
        self.requests -= 1
        number = self.draws.randrange(self.world.clients)
        sending = self.clients[number].send()
        self.send(f"client {number}", sending.engine, "ADD", self.draws.randint(1, 4), sending.wave)
        if sending.first_request is not None:
            self.send(f"client {number}", "coordinator", "first_request", *sending.first_request)

    def _pause(self) -> None:
        self.pauses -= 1
        self.paused = True
        mode = self.draws.choice(["abort", "wait", "keep"])
        for rank in range(self.world.size):
            self.send("client 0", rank, "PAUSE", mode)

    def _resume(self) -> None:
        self.paused = False
        for rank in range(self.world.size):
            self.send("client 0", rank, "RESUME")

    # ---- messages

    def send(self, source: Any, to: Any, *message: Any) -> None:
        self.channels[source, to].append(message)

    def _deliver(self, source: Any, to: Any) -> None:
        message = self.channels[source, to].popleft()
        if isinstance(to, int):
            self._take(to, *message)
        elif to == "coordinator":
            for sent in getattr(self.coordinator, message[0])(*message[1:]):
                if isinstance(sent.message, StartDpWave):
                    for rank in range(self.world.size):
                        self.send("coordinator", rank, "START_DP_WAVE", *sent.message)
                else:
                    for number in range(self.world.clients):
                        self.send("coordinator", f"client {number}", *sent.message)
        else:
            self.clients[int(to.split()[1])].update_counts(*message)

    def _take(self, rank: int, kind: str, *content: Any) -> None:
        engine = self.engines[rank]
        waves = engine.waves
        if kind == "ADD":
            self._tell(rank, waves.add(content[1]))
            engine.work.append((content[0], False))
        elif kind == "START_DP_WAVE":
            stays = waves.ignore_start_dp_wave and not waves.engines_running
            waves.start_dp_wave(*content)
            demand(not (stays and waves.engines_running), "a paused engine was woken")
        elif kind == "PAUSE":
            mode: PauseMode = content[0]
            engine.work = [] if mode == "abort" else engine.work
            waves.pause(mode)
        elif waves.resume():
            engine.at = "barrier"

    def _tell(self, rank: int, outs: list[Out]) -> None:
        for out in outs:
            demand(out.to == "coordinator", "a front end got a wave that the coordinator coordinates")
            self.send(rank, "coordinator", out.kind, rank, out.wave)

    # ---- steps of all engines together

    def _iterate(self) -> None:
        """Runs one forward of all engines, after all have begun it."""
        self.forwards += 1
        for engine in self.engines:
            engine.step()
        syncs = [engine.waves.at_sync_point() for engine in self.engines]
        demand(len(set(syncs)) == 1, "some ranks sync and others do not")
        if syncs[0]:
            self._sync()
        for rank, engine in enumerate(self.engines):
            if not syncs[0]:
                engine.waves.no_sync()
            self._tell(rank, engine.waves.end_iteration(engine.was_running))
            engine.at, engine.was_running = "loop", engine.waves.engines_running
        states = {(one.waves.engines_running, one.waves.step_counter) for one in self.engines}
        demand(len(states) == 1, "ranks do not agree whether they run, or on the step")
        if not self.engines[0].waves.engines_running:
            demand(len({one.waves.current_wave for one in self.engines}) == 1, "a wave did not end alike")

    def _sync(self) -> None:
        unfinished = [engine.unfinished for engine in self.engines]
        pausing = [engine.waves.pending_pause for engine in self.engines]
        told = [one.waves.contribution(work) for one, work in zip(self.engines, unfinished, strict=True)]
        demand(
            len({(one.waves.op, len(numbers)) for one, numbers in zip(self.engines, told, strict=True)}) == 1, "sync"
        )
        combine = sum if self.engines[0].waves.op == "sum" else max
        total = tuple(combine(column) for column in zip(*told, strict=True))
        for engine in self.engines:
            engine.waves.synced(total)
            demand(engine.waves.engines_running or not any(unfinished), "a wave ended with work")
            demand(engine.waves.engines_running or len(set(pausing)) == 1, "a partial pause stopped the group")

    def _resumed(self) -> None:
        any_work = any(engine.unfinished for engine in self.engines)
        for engine in self.engines:
            engine.waves.resumed(any_work)
            engine.at = "loop"

    def _end(self) -> None:
        """Checks the final state, when no choice is left."""
        demand(all(engine.at == "loop" for engine in self.engines), "a hang")
        demand(not any(engine.work for engine in self.engines) or self.paused, "a request is lost")
        demand(not self.paused, "a pause does not end")
        wave = self.engines[0].waves.current_wave
        demand(all(engine.waves.current_wave == wave for engine in self.engines), "waves differ in the end")
        views: list[Coordination | ClientView] = [self.coordinator, *self.clients]
        for view in views:
            demand((view.current_wave, view.engines_running) == (wave, False), "the coordinator believes otherwise")


def demand(holds: bool, what: str) -> None:
    """Raises Trouble with the text `what` if a rule does not hold."""
    if not holds:
        raise Trouble(what)


def trouble_in(world: World, seed: int) -> str:
    """Returns the rule that does not hold in the history of a seed, or ""."""
    try:
        Group(world, random.Random(seed)).run()
    except (Trouble, RuntimeError) as trouble:
        return str(trouble)
    return ""


def first_trouble(world: World, histories: int) -> tuple[int, str] | None:
    """Returns the first seed whose history breaks a rule, and the rule, or None."""
    return next(((seed, what) for seed in range(histories) if (what := trouble_in(world, seed))), None)


__all__ = ["Group", "Trouble", "World", "first_trouble", "trouble_in"]
