"""Small random programs whose ranks have several host threads, like those of `random_world`.

The threads of a rank share a number, its streams, its buffers and its mailboxes. A thread adds the result of each call
to the number. So the order of the threads shows in some journal.

    case = threaded_case(seed=7)
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np

from dpsim.contract.interface import Buffer, Event, Rank, Thread
from dpsim.contract.program import Program
from dpsim.contract.world import At, Fault, Kill
from tests.programs import set_to, world_of
from tests.worlds.case import Case
from tests.worlds.random_world import STREAMS, Action, add

FLAGS = ("f", "g")


class Threaded(Program[Any]):
    """`prepared` has for each rank the actions of each of its threads. The first thread is main, which starts the
    others.
    """

    threaded = True

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        own, *others = prepared[rank.rank]
        shared = _Shared(rank)
        for number, actions in enumerate(others, 1):
            shared.start(f"u{number}", actions)
        await shared.do(own)


class _Shared:
    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.number = rank.rank + 1
        self.buffers: dict[str, Buffer] = {}
        self.event: Event | None = None
        self.threads: dict[str, Thread] = {}

    def start(self, name: str, actions: tuple[Action, ...]) -> None:
        async def own(_: Rank) -> None:
            await self.do(actions)

        self.threads[name] = self.rank.start(name, own)

    async def do(self, actions: tuple[Action, ...]) -> None:
        for what, *how in actions:
            await getattr(self, what)(*how)

    def learn(self, value: Any) -> None:
        self.number = (5 * self.number + int(value or 0)) % 97

    def buffer(self, name: str) -> Buffer:
        if name not in self.buffers:
            main = self.rank.stream("left")
            self.buffers[name] = main.alloc(1, "int32", name)
            main.launch(f"begin.{name}", set_to, writes=[self.buffers[name]], args=(self.rank.rank,))
        return self.buffers[name]

    async def set(self, flag: str) -> None:
        self.rank.flag(flag).set(f"set.{flag}")

    async def clear(self, flag: str) -> None:
        self.rank.flag(flag).clear(f"clear.{flag}")

    async def wait(self, flag: str) -> None:
        await self.rank.flag(flag).wait(f"wait.{flag}")

    async def late_wait(self, flag: str) -> None:
        work = self.rank.flag(flag).wait(f"wait.{flag}")
        self.rank.probe("between")
        await work

    async def query(self, flag: str) -> None:
        self.learn(await self.rank.flag(flag).query(f"query.{flag}"))

    async def join(self, name: str) -> None:
        if name in self.threads and self.rank.thread != name:
            self.learn(bool(await self.threads[name].join(f"join.{name}")))

    async def begin(self, name: str, actions: tuple[Action, ...]) -> None:
        if name not in self.threads:
            self.start(name, actions)

    async def decide(self) -> None:
        self.rank.decide("number", self.number, "own")
        self.learn(3)

    async def send(self, to: int, box: str) -> None:
        self.rank.send(to, box, self.number + 1, f"send.{box}")

    async def poll(self, box: str) -> None:
        self.learn(await self.rank.mailbox(box).poll(f"poll.{box}"))

    async def get(self, box: str, idle: bool) -> None:
        self.learn(await self.rank.mailbox(box).get(f"get.{box}", idle=idle))

    async def host(self, name: str) -> None:

        self.learn((await self.rank.host(name).all_reduce(np.array([self.number], np.int32)))[0])

    async def collective(self, stream: str, buffer: str) -> None:
        self.rank.device("a").all_reduce(self.buffer(buffer), self.rank.stream(stream))

    async def kernel(self, stream: str, source: str, target: str) -> None:
        on = self.rank.stream(stream)
        on.launch("kernel", add, reads=[self.buffer(source)], writes=[self.buffer(target)])

    async def read(self, stream: str, buffer: str) -> None:
        self.learn((await self.buffer(buffer).read("read", self.rank.stream(stream)))[0])

    async def record(self, stream: str) -> None:
        self.event = self.rank.stream(stream).record()

    async def passed(self) -> None:
        if self.event is not None:
            self.learn(await self.event.query("passed"))

    async def wait_event(self, stream: str) -> None:
        if self.event is not None:
            self.rank.stream(stream).wait(self.event)

    async def nap(self) -> None:
        await self.rank.sleep(1, "nap")

    async def fail(self) -> None:
        raise ValueError(f"number {self.number}")

    async def odd(self, actions: tuple[Action, ...]) -> None:
        if self.number % 2:
            await self.do(actions)


def threaded_case(seed: int) -> Case:
    """Returns a case of one rank with two or three threads, or of two ranks of which at least one has two threads."""
    rng = random.Random(seed)
    ranks = rng.choice((1, 1, 2))
    kind = rng.choice(("flags", "mail", "device", "all"))
    lists: list[list[list[Action]]] = []
    for rank in range(ranks):
        count = rng.choice((2, 2, 3)) if ranks == 1 else 2 - rank * rng.randint(0, 1)
        lists.append([[_action(rng, kind, ranks) for _ in range(rng.randint(1, 3))] for _ in range(count)])
    for _ in range(rng.randint(0, 2) if ranks == 2 else 0):
        together = ("host", "h") if kind != "device" else ("collective", rng.choice(STREAMS), "x")
        for threads in lists:
            own = rng.choice(threads)
            own.insert(rng.randint(0, len(own)), together)
    how = rng.choice(("", "", "", "kill", "die"))
    faults: tuple[Fault, ...] = ()
    rank = rng.randrange(ranks)
    if how == "die":
        number = rng.randrange(len(lists[rank]))
        lists[rank][number].insert(rng.randint(0, len(lists[rank][number])), ("nap",))
        faults = (Fault("die", rank, At("nap", 0, thread=f"u{number}" if number else "main")),)
    world = world_of(ranks, hosts=["h", "own"], devices=["a"], kills=(Kill(rank),) if how == "kill" else ())
    world = replace(world, faults=faults)
    args = tuple(tuple(map(tuple, threads)) for threads in lists)
    return Case(f"threads {seed} {how}".strip(), world, Threaded(), args, memory=kind in ("device", "all"))


def _action(rng: random.Random, kind: str, ranks: int) -> Action:
    flag, stream, box = rng.choice(FLAGS), rng.choice(STREAMS), rng.choice("pq")
    flags: list[Action] = [("set", flag), ("set", flag), ("clear", flag), ("wait", flag), ("query", flag)]
    flags += [("late_wait", flag), ("join", "u1"), ("join", "u2"), ("decide",), ("begin", "v", (("set", flag),))]
    mail: list[Action] = [("poll", box), ("send", rng.randrange(ranks), "p"), ("get", box, rng.random() < 0.7)]
    mail += [("poll", "p"), ("send", 0, "p"), ("get", "p", False)]
    device: list[Action] = [("kernel", stream, *rng.sample("xy", 2)), ("read", stream, rng.choice("xy"))]
    device += [("record", stream), ("wait_event", stream), ("passed",)]
    if rng.random() < 0.06:
        return ("fail",)
    if rng.random() < 0.15:
        return "odd", (rng.choice(flags),)
    if kind == "flags" or rng.random() < 0.4:
        return rng.choice(flags)
    return rng.choice({"mail": mail, "device": device}.get(kind, mail + device))
