"""Small random programs with a few ops of every kind of the machine, on two or three ranks.

A rank has a number and a list of actions. It adds the result of each call to the number and sends the number to other
ranks. It does some actions only if the number is odd. So if the machine has an order that an explorer does not see,
this order shows in some journal.

    case = random_case(seed=7)
    enumerate_schedules(case, limit=5_000).outcomes      # what an explorer has to see
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from dpsim.backend.graphs.kernel_call import KernelError
from dpsim.contract.interface import Buffer, Event, Rank
from dpsim.contract.program import Program
from dpsim.contract.world import At, Fault, Kill
from tests.programs import set_to, world_of
from tests.worlds.case import Case

Action: TypeAlias = tuple[Any, ...]

STREAMS = ("left", "right")
DEVICES = ("a", "b")


def add(source: Any, target: Any) -> None:
    target[:] = (3 * target + source) % 97


def raises(target: Any) -> None:
    raise ValueError("a kernel that raises")


class Random(Program[Any]):
    """`prepared` has the actions of each rank."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        await _Host(rank).do(prepared[rank.rank])


class _Host:
    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.number = rank.rank + 1
        self.buffers: dict[str, Buffer] = {}
        self.event: Event | None = None

    async def do(self, actions: tuple[Action, ...]) -> None:
        for what, *how in actions:
            await getattr(self, what)(*how)

    def learn(self, value: Any) -> None:
        self.number = (5 * self.number + int(value or 0)) % 97

    def buffer(self, name: str) -> Buffer:
        """Returns a buffer that all streams use. If two streams race on it, the outcomes differ."""
        if name not in self.buffers:
            main = self.rank.stream("left")
            self.buffers[name] = main.alloc(1, "int32", name)
            main.launch(f"begin.{name}", set_to, writes=[self.buffers[name]], args=(self.rank.rank,))
            for stream in STREAMS[1:]:
                self.rank.stream(stream).wait_stream(main)
        return self.buffers[name]

    async def poll(self, box: str) -> None:
        self.learn(await self.rank.mailbox(box).poll(f"poll.{box}"))

    async def get(self, box: str) -> None:
        self.learn(await self.rank.mailbox(box).get(f"get.{box}", idle=True))

    async def send(self, to: int, box: str) -> None:
        self.rank.send(to, box, self.number + 1, f"send.{box}")

    async def asked(self, op: str, looks: tuple[int, ...], between: tuple[Action, ...]) -> None:
        """Runs a host collective on all ranks. Each rank queries it `looks` times, runs the actions `between`, and
        awaits it.
        """
        group, mine = self.rank.host("h"), np.array([self.number], np.int32)
        work = group.broadcast(mine, 0) if op == "broadcast" else group.all_reduce(mine)
        for _ in range(looks[self.rank.rank]):
            self.learn(await work.query("look"))
        await self.do(between)
        self.learn((await work)[0])

    async def asked_move(self, sender: int, receiver: int, looks: tuple[int, ...], from_any: bool) -> None:
        """Runs a transfer that each of its two ranks queries `looks` times before it awaits the transfer."""
        group, me = self.rank.host("h"), self.rank.rank
        if me == sender:
            work: Any = group.send(np.array([self.number], np.int32), receiver)
        elif me == receiver:
            work = group.recv_any(1, "int32") if from_any else group.recv(1, "int32", sender)
        else:
            return
        for _ in range(looks[me]):
            self.learn(await work.query("look"))
        got = await work
        self.learn(int(got.array[0]) if from_any and me == receiver else sum(got))

    async def host(self) -> None:
        self.learn((await self.rank.host("h").all_reduce(np.array([self.number], np.int32)))[0])

    async def transfer(self, kind: str, pair: tuple[int, int]) -> None:
        """Runs the same action on two ranks: one sends, and the other receives."""
        if self.rank.rank not in pair:
            return
        peer = pair[1 - pair.index(self.rank.rank)]
        if kind == "h":
            group = self.rank.host("h")
            if peer == pair[1]:
                await group.send(np.array([self.number], np.int32), peer)
            else:
                self.learn((await group.recv(1, "int32", peer))[0])
        elif peer == pair[1]:
            self.rank.device(kind).send(self.buffer("x"), peer, self.rank.stream("left"))
        else:
            self.rank.device(kind).recv(self.buffer("x"), peer, self.rank.stream("right"))

    async def collect(self, receiver: int, senders: tuple[int, ...], ahead: bool, waits: bool) -> None:
        """Runs the same action on all ranks: one rank receives from any source what the senders send. `ahead`: it posts
        all receives before it awaits one. `waits`: the senders await each send at once.
        """
        group, me = self.rank.host("h"), self.rank.rank
        if me == receiver:
            begun = [group.recv_any(1, "int32") for _ in senders] if ahead else []
            for number in range(len(senders)):
                received = await (begun[number] if ahead else group.recv_any(1, "int32"))
                self.learn(10 * received.source + int(received.array[0]))
            return
        works = []
        for _ in range(senders.count(me)):
            works.append(group.send(np.array([self.number], np.int32), receiver))
            self.number += 1
            if waits:
                await works.pop()
        for work in works:
            await work

    async def collective(self, kind: str, stream: str, buffer: str) -> None:
        self.rank.device(kind).all_reduce(self.buffer(buffer), self.rank.stream(stream))

    async def broadcast(self, kind: str, stream: str, buffer: str, root: int) -> None:
        self.rank.device(kind).broadcast(self.buffer(buffer), root, self.rank.stream(stream))

    async def pieces(self, kind: str, stream: str, sizes: tuple[tuple[int, ...], ...]) -> None:
        """Runs an all_to_all with at most one element from each rank to each rank. `sizes[i][j]` counts those from i to
        j.
        """
        go, come = sizes[self.rank.rank], tuple(row[self.rank.rank] for row in sizes)
        if kind == "h":
            array = np.full(sum(go), self.number, np.int32)
            came = await self.rank.host("h").all_to_all(array, source_sizes=go, output_sizes=come)
            self.learn(came.sum())
            return
        on = self.rank.stream(stream)
        source, output = (on.alloc(sum(some), "int32", "piece") for some in (go, come))
        for buffer in (source, output):
            on.launch("pieces", set_to, writes=[buffer], args=(self.number,))
        self.rank.device(kind).all_to_all(output, source, on, source_sizes=go, output_sizes=come)
        self.learn((await output.read("pieces.read")).sum())

    async def rooted(self, op: str, kind: str, stream: str, root: int) -> None:
        """Runs a gather or scatter with one element for each rank."""
        size, mine = len(self.rank.host("h").ranks), self.rank.rank == root
        if kind == "h":
            array = np.full(1 if op == "gather" else size, self.number, np.int32)
            came = await getattr(self.rank.host("h"), op)(array, root)
            self.learn(came.sum())
            return
        on, one = self.rank.stream(stream), self.buffer("x")
        group = self.rank.device(kind)
        whole = on.alloc(group.size, "int32", "whole") if mine else None
        if whole is not None:
            on.launch("whole", set_to, writes=[whole], args=(self.number,))
        if op == "gather":
            group.gather(whole, one, root, on)
            if whole is not None:
                self.learn((await whole.read("whole.read")).sum())
        else:
            group.scatter(one, whole, root, on)

    async def host_broadcast(self, root: int) -> None:
        self.learn((await self.rank.host("h").broadcast(np.array([self.number], np.int32), root))[0])

    async def nothing(self, kind: str) -> None:
        if kind == "h":
            await self.rank.host("h").all_reduce(np.zeros(0, np.int32))
        else:
            main = self.rank.stream("left")
            self.rank.device(kind).all_reduce(main.alloc(0, "int32", "nothing"), main)

    async def kernel(self, stream: str, source: str, target: str) -> None:
        on = self.rank.stream(stream)
        on.launch("kernel", add, reads=[self.buffer(source)], writes=[self.buffer(target)])

    async def read(self, stream: str, buffer: str) -> None:
        self.learn((await self.buffer(buffer).read("read", self.rank.stream(stream)))[0])

    async def record(self, stream: str) -> None:
        self.event = self.rank.stream(stream).record()

    async def query(self) -> None:
        if self.event is not None:
            self.learn(await self.event.query("query"))

    async def wait(self, stream: str) -> None:
        if self.event is not None:
            self.rank.stream(stream).wait(self.event)

    async def fail(self, stream: str) -> None:
        on = self.rank.stream(stream)
        on.launch("fail", raises, writes=[on.alloc(1, "int32", "lost")])

    async def caught(self, action: Action) -> None:
        try:
            await self.do((action,))
        except KernelError:
            self.learn(1)

    async def nap(self) -> None:
        await self.rank.sleep(1, "nap")

    async def odd(self, actions: tuple[Action, ...]) -> None:
        if self.number % 2:
            await self.do(actions)


def random_case(seed: int, queries: bool = False, waits: bool = False) -> Case:
    """Returns a random case. `queries`: hosts also query events. `waits`: most collective actions may end on some ranks
    before all ranks have called them.
    """
    rng = random.Random(seed)
    ranks = rng.choice((2, 2, 3))
    kinds = rng.choice(("mail", "host", "device", "all"))
    mortal = rng.random() < 0.3
    common: list[Action] = []
    for _ in range(rng.randint(1, 3) if waits else rng.randint(0, 3)):
        common.append((_apart if waits and rng.random() < 0.8 else _together)(rng, kinds, ranks))
    lists = []
    for rank in range(ranks):
        own: list[Action] = [*common]
        for _ in range(rng.randint(1, 4)):
            own.insert(rng.randint(0, len(own)), _alone(rng, kinds, ranks, rank, queries))
        lists.append(tuple(own))
    world = world_of(
        ranks,
        hosts=["h"],
        devices=DEVICES,
        residency=rng.choice((None, None, 1, 2)),
        kills=(Kill(rng.randrange(ranks), 0),) if mortal else (),
    )
    return Case(f"random {seed}", world, Random(), tuple(lists), memory=kinds in ("device", "all") or queries)


def asking_case(seed: int) -> Case:
    """Returns a random case in which hosts query their collectives and transfers."""
    rng = random.Random(f"asks {seed}")
    ranks = rng.choice((2, 2, 3))
    common = [_asked(rng, ranks) for _ in range(rng.choice((1, 1, 1, 2)))]
    if rng.random() < 0.15:
        common.insert(rng.randint(0, len(common)), _apart(rng, "host", ranks))
    lists = []
    for rank in range(ranks):
        own = [*common]
        for _ in range(rng.choice((0, 0, 1))):
            own.insert(rng.randint(0, len(own)), _alone(rng, "mail", ranks, rank, False))
        lists.append(tuple(own))
    kills = (Kill(rng.randrange(ranks), partial=rng.random() < 0.3),) if rng.random() < 0.15 else ()
    return Case(f"asks {seed}", world_of(ranks, hosts=["h"], kills=kills), Random(), tuple(lists), memory=False)


def _asked(rng: random.Random, ranks: int) -> Action:
    looks = tuple(rng.choice((0, 0, 1, 1, 2)) for _ in range(ranks))
    if rng.random() < 0.5:
        between = (rng.choice((("send", 0, "p"), ("poll", "p"), ("nap",))),) * rng.randint(0, 1)
        return "asked", rng.choice(("broadcast", "all_reduce")), looks, between
    return "asked_move", *rng.sample(range(ranks), 2), looks, rng.random() < 0.3


def any_source_case(seed: int) -> Case:
    """Returns a random case in which ranks receive from any source, on a host communicator that has other transfers
    too.
    """
    rng = random.Random(f"any source {seed}")
    ranks = rng.choice((2, 3, 3, 3))
    common: list[Action] = [_collect(rng, ranks)]
    for _ in range(rng.choice((0, 1, 1))):
        common.insert(rng.randint(0, 1), rng.choice((_collect(rng, ranks), _apart(rng, "host", ranks), ("host",))))
    lists = []
    for rank in range(ranks):
        own = [*common]
        for _ in range(rng.choice((0, 0, 1, 2))):
            own.insert(rng.randint(0, len(own)), _alone(rng, "mail", ranks, rank, False))
        lists.append(tuple(own))
    kills = (Kill(rng.randrange(ranks), partial=rng.random() < 0.3),) if rng.random() < 0.2 else ()
    return Case(f"any source {seed}", world_of(ranks, hosts=["h"], kills=kills), Random(), tuple(lists), memory=False)


def _collect(rng: random.Random, ranks: int) -> Action:
    receiver = rng.randrange(ranks)
    senders = tuple(rng.choice([one for one in range(ranks) if one != receiver]) for _ in range(rng.choice((1, 2, 2))))
    return "collect", receiver, senders, rng.random() < 0.5, rng.random() < 0.5


def losing_case(seed: int) -> Case:
    """Returns a random case in which devices stop. One rank dies at an op, one rank's kernel raises, or the world may
    kill one or two ranks.
    """
    case, rng = random_case(seed, waits=True), random.Random(f"losing {seed}")
    lists, size = [[*actions] for actions in case.args], case.world.size
    how = rng.choice(("dies", "fails", "both", "dies beside a kill", "fails beside a kill", "two kills"))
    faults: tuple[Fault, ...] = ()
    if how.startswith(("dies", "both")):
        rank = rng.randrange(size)
        lists[rank].insert(rng.randint(1, len(lists[rank])), ("nap",))
        faults = (Fault("die", rank, At("nap", 0)),)
    if how.startswith(("fails", "both")):
        own = lists[rng.randrange(size)]
        own[:] = [
            ("caught", action) if action[0] in ("read", "query") and rng.random() < 0.7 else action for action in own
        ]
        own.insert(rng.randint(0, len(own)), ("fail", rng.choice(STREAMS)))
    mortal = rng.sample(range(size), 2 if how == "two kills" else 1 if how.endswith("a kill") else 0)
    world = replace(case.world, faults=faults, kills=tuple(Kill(rank) for rank in mortal))
    return replace(case, name=f"losing {seed}: {how}", world=world, args=tuple(map(tuple, lists)))


def _together(rng: random.Random, kinds: str, ranks: int) -> Action:
    """Returns an action that all ranks do, in the same order."""
    device = ("collective", rng.choice(DEVICES), rng.choice(STREAMS), rng.choice("xy"))
    move = ("transfer", rng.choice(("h", "a")), tuple(rng.sample(range(ranks), 2)))
    apart: dict[str, list[Action]] = {"mail": [("host",)], "host": [("host",), ("transfer", "h", (0, 1))]}
    return rng.choice(apart.get(kinds, [device, device, move]))


def _apart(rng: random.Random, kinds: str, ranks: int) -> Action:
    """Returns an action that all ranks do, and that some may end before others call it."""
    kind = "h" if kinds in ("mail", "host") or (kinds == "all" and rng.random() < 0.5) else rng.choice(DEVICES)
    sizes = tuple(tuple(rng.choice((0, 0, 1)) for _ in range(ranks)) for _ in range(ranks))
    root = rng.randrange(ranks)
    stream = rng.choice(STREAMS)
    spread = ("host_broadcast", root) if kind == "h" else ("broadcast", kind, stream, rng.choice("xy"), root)
    move = ("transfer", kind, tuple(rng.sample(range(ranks), 2)))
    rooted = ("rooted", "gather" if sizes[0][0] else "scatter", kind, stream, root)
    return rng.choice([spread, rooted, move, move, ("pieces", kind, stream, sizes), ("nothing", kind)])


def _alone(rng: random.Random, kinds: str, ranks: int, rank: int, queries: bool) -> Action:
    """Returns an action of one rank."""
    box = rng.choice("pq")
    mail: list[Action] = [("poll", box), ("send", rng.randrange(ranks), box), ("send", 0, "p"), ("poll", "p")]
    if rng.random() < 0.2:
        mail.append(("get", box))
    stream = rng.choice(STREAMS)
    device: list[Action] = [("kernel", stream, *rng.sample("xy", 2)), ("read", stream, rng.choice("xy"))]
    device += [("record", stream), ("wait", stream)]
    if queries:
        device += [("query",), ("query",)]
    action = rng.choice({"mail": mail, "host": mail, "device": device}.get(kinds, mail + device))
    if rng.random() < 0.2:
        return "odd", (action, ("host",) if kinds != "device" else ("collective", "a", stream, "x"))
    return action
