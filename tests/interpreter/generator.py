"""Generates small random scripts from a seed. They use every kind of instruction, and most have no race.

The generator adds one action after the other, of one rank or of several ranks that communicate. Then it swaps
independent neighbouring instructions of each rank at random. So ranks reach different communicators in different
orders. The calls on one communicator keep their order on each rank, because all members have to make the same calls.
Finally the generator cuts some lists off.

The scripts avoid cases that the contract leaves open:

* groups, and calls that move no element, if slots for collectives are few
* two transfers to one peer in a group
* device work of a rank that raises

dpsim kills no rank between two plain calls of which other ranks observe the second. It also kills no rank between the
start of a host collective and its await. So ranks that may die use neither. `test_comparison` shows the outcomes that
dpsim would miss.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.interpreter import meeting
from tests.interpreter.language import STREAMS, Instruction, Script, Shape, View, tidy, unwrapped
from tests.interpreter.steps import Steps

FLAVOURS = ("mail", "mail", "host", "device", "device", "events", "memory", "memory", "slots", "transfers", "all")

OPS = (
    "all_reduce",
    "broadcast",
    "broadcast",
    "reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "gather",
    "scatter",
)


def random_script(seed: int) -> Script:
    rng = random.Random(seed)
    flavour = rng.choice(FLAVOURS)
    size = 1 if flavour == "memory" and rng.random() < 0.4 else rng.choice((2, 2, 2, 3))
    world = Drawn(rng, flavour, size)
    for _ in range(rng.randint(3, 6 if size == 3 else 9)):
        world.act()
    return world.script()


class Drawn:
    def __init__(self, rng: random.Random, flavour: str, size: int) -> None:
        self.rng = rng
        self.flavour = flavour
        self.size = size
        everybody = tuple(range(size))
        self.hosts = {"h": everybody, "i": everybody[:2]}
        self.devices = {"d": everybody, "c": everybody[-2:]}
        self.lists = [Steps(rng, rank) for rank in range(size)]
        slots = flavour == "slots" or (flavour == "all" and rng.random() < 0.3)
        self.residency = rng.choice((1, 1, 2)) if slots else None
        self.mortal = (rng.randrange(size),) if flavour != "memory" and rng.random() < 0.25 else ()

    def act(self) -> None:
        chances = {
            "mail": (self.mail, self.mail, self.mail, self.mail, self.host),
            "host": (self.host, self.host, self.host_transfer, self.mail),
            "device": (self.device, self.device, self.device, self.kernel, self.read, self.host, self.mail),
            "events": (self.event, self.event, self.event, self.kernel, self.device, self.mail),
            "memory": (self.reuse, self.reuse, self.kernel, self.event, self.device),
            "slots": (self.device, self.device, self.transfer, self.transfer, self.mail, self.read),
            "transfers": (self.transfer, self.group, self.group, self.group, self.host_transfer, self.read, self.mail),
            "all": (self.mail, self.host, self.device, self.transfer, self.event, self.kernel, self.reuse, self.read),
        }
        self.rng.choice(chances[self.flavour])()

    def one(self) -> Steps:
        return self.rng.choice(self.lists)

    def kernel(self) -> None:
        self.one().kernel()

    def read(self) -> None:
        self.one().read()

    def reuse(self) -> None:
        self.one().reuse()

    def event(self) -> None:
        one = self.one()
        self.rng.choice((one.record, one.ask, one.ask, one.wait))()

    def mail(self) -> None:
        one, box = self.one(), self.rng.choice("pq")
        chance = self.rng.random()
        if chance < 0.45:
            one.maybe(("post", self.rng.randrange(self.size), box))
        elif chance < 0.8:
            one.said.append(("poll", box))
        elif chance < 0.92:
            one.said.append((self.rng.choice(("get", "get", "idle")), box))
            self.one().said.append(("post", one.rank, box))
        elif self.flavour in ("mail", "host"):
            one.said.append(("odd", self.rng.choice((("stop",), ("raise",)))))
        else:
            one.said.append(("odd", ("poll", box)))

    # ---- actions of several ranks

    def shape(self, members: tuple[int, ...]) -> tuple[str, Shape]:
        op = self.rng.choice(OPS)
        some = (1,) if self.residency else (0, 1, 1, 1)

        def sizes() -> tuple[int, ...]:
            return tuple(self.rng.choice(some) for _ in members)

        match op:
            case "all_reduce":
                return op, (self.rng.choice(some),)
            case "broadcast" | "reduce" | "gather" | "scatter":
                return op, (self.rng.choice(some), self.rng.choice(members))
            case "all_to_all":
                return op, tuple(sizes() for _ in members)
        return op, sizes()

    def host(self) -> None:
        kind = self.rng.choice(tuple(self.hosts))
        members = self.hosts[kind]
        op, shape = self.shape(members) if self.rng.random() < 0.85 else ("barrier", ())
        for member in members:
            self._start(member, kind, op, shape)

    def host_transfer(self) -> None:
        kind = self.rng.choice(tuple(self.hosts))
        if len(self.hosts[kind]) > 1:
            sender, receiver = self.rng.sample(self.hosts[kind], 2)
            self._start(sender, kind, "send", (1, receiver))
            self._start(receiver, kind, "recv", (1, sender))

    def _start(self, member: int, kind: str, op: str, shape: Shape) -> None:
        one = self.lists[member]
        handle = one.name("w")
        one.said += [("start", handle, kind, op, shape), ("await", handle)]

    def device(self) -> None:
        kind = self.rng.choice(tuple(self.devices))
        members = self.devices[kind]
        if len(members) == 1:
            return
        op, shape = self.shape(members)
        for member in members:
            one = self.lists[member]
            stream = one.stream()
            source = one.view(meeting.brings(op, shape, members, member), stream)
            views: tuple[View, ...] = (source,)
            if op not in ("all_reduce", "broadcast", "reduce"):
                views = (one.fresh(meeting.gets(op, shape, members, member), stream, False), source)
            one.said.append(("device", kind, stream, op, shape, views))

    def transfer(self) -> None:
        kind = self.rng.choice(tuple(self.devices))
        if len(self.devices[kind]) == 1:
            return
        for member, transfer in self._pair(kind):
            self.lists[member].said.append(("transfer", kind, *transfer))

    def _pair(self, kind: str) -> Iterator[tuple[int, Any]]:
        sender, receiver = self.rng.sample(self.devices[kind], 2)
        for way, member, peer in (("send", sender, receiver), ("recv", receiver, sender)):
            stream = self.lists[member].stream()
            yield member, (stream, (way, self.lists[member].view(1, stream), peer))

    def group(self) -> None:
        """Adds transfers between pairs of members: in groups or one by one, and in different orders."""
        kind = self.rng.choice(tuple(self.devices))
        members = self.devices[kind]
        pairs = [(one, other) for one in members for other in members if one != other and self.rng.random() < 0.7]
        if self.residency:
            return
        order = self.rng.choice(("sends first", "receives first", "mixed"))
        for member in members:
            one = self.lists[member]
            stream, transfers = one.stream(), []
            for way, here, there in (("send", 0, 1), ("recv", 1, 0)):
                for pair in pairs:
                    if pair[here] == member:
                        transfers.append((way, one.view(1, stream), pair[there]))
            if order == "mixed":
                self.rng.shuffle(transfers)
            elif order == "receives first":
                transfers.reverse()
            if transfers and self.rng.random() < 0.8:
                one.said.append(("group", kind, stream, tuple(transfers)))
            else:
                one.said += [("transfer", kind, stream, transfer) for transfer in transfers]

    # ---- the whole script

    def script(self) -> Script:
        if any(unwrapped(how) == ("raise",) for one in self.lists for how in one.said):
            for one in self.lists:
                one.said = [how for how in one.said if unwrapped(how)[0] in HOST_ONLY]
        ranks = []
        for one in self.lists:
            for _ in range(self.rng.choice((0, 0, 2, 6))):
                _swap(one.said, self.rng)
            if self.rng.random() < 0.12:
                del one.said[self.rng.randint(0, len(one.said)) :]
                started = {how[1] for how in one.said if how[0] == "start"}
                done = {how[1] for how in one.said if how[0] == "await"}
                one.said += [("await", handle) for handle in sorted(started - done)]
            if one.rank in self.mortal:
                one.said = [*rested(one.said)]
            ranks.append(tuple(one.said))
        hosts, devices = tuple(self.hosts.items()), tuple(self.devices.items())
        return tidy(Script(tuple(ranks), hosts, devices, self.mortal, self.residency))


AWAITED = ("poll", "get", "idle", "await", "read", "query", "sync")

HOST_ONLY = ("post", "poll", "get", "idle", "start", "await", "stop", "raise")


def rested(said: list[Instruction]) -> Iterator[Instruction]:
    """Yields the instructions, and adds an awaited call before each call that other ranks observe at once. Each host
    collective is awaited directly after its start.
    """
    before = ""
    for instruction in said:
        what = unwrapped(instruction)[0]
        if what == "await":
            continue
        if what in ("post", "start", "raise") and before not in AWAITED:
            yield ("poll", "rest")
        yield instruction
        if what == "start":
            yield ("await", instruction[1])
        before = "await" if what == "start" else instruction[0]


def _swap(said: list[Instruction], rng: random.Random) -> None:
    """Swaps two random neighbouring instructions if they use no common name."""
    if len(said) < 2:
        return
    place = rng.randrange(len(said) - 1)
    one, other = said[place : place + 2]
    if not {*_things(one)} & {*_things(other)}:
        said[place : place + 2] = [other, one]


def _things(instruction: Instruction) -> Iterator[str]:
    """Yields the names that an instruction uses: buffers, events, handles and communicators, and streams if it orders
    them.
    """
    what, *how = unwrapped(instruction)
    match what:
        case "start":
            yield from (how[0], how[1])
        case "stop" | "raise":
            yield from ("h", "i")
        case "await":
            yield how[0]
        case "device":
            yield how[0]
            yield from (view[0] for view in how[4])
        case "transfer":
            yield from (how[0], how[2][1][0])
        case "group":
            yield how[0]
            yield from (view[0] for _, view, _ in how[2])
        case "post" | "poll" | "get" | "idle":
            return
        case "join" | "record" | "wait":
            yield from (*how, *STREAMS)
        case _:
            yield from (part if isinstance(part, str) else part[0] for part in how if not isinstance(part, int | None))
            if what in ("fill", "copy", "mix", "mark", "free", "alloc"):
                yield how[1] if what in ("mark", "alloc") else how[0]
