"""Draws random programs, and computes their order in the simplest way: a graph of points, and its transitive closure.

A program is drawn in an order in which it could run; a host continues after an await only if the awaited op has
happened. A point belongs to a host, to a stream, or to a member of a collective (its arrival or its end). The edges
follow the docstrings of `dpsim.contract.interface`. This module uses nothing of `dpsim.checks.happens_before`, which it
tests.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

from tests.checks.handmade import Made

STREAMS = ("main", "side", "copy")


class Access(NamedTuple):
    """An op of a stream: its point, its rank, and its position in the journal."""

    point: int
    rank: int
    at: int


class Message(NamedTuple):
    """A message: its content, and its point at the sender or at the receiver."""

    content: Any
    point: int


class Graph:
    """Points, and for each point those directly before it. A point in `never` never happens and has no edges."""

    def __init__(self) -> None:
        self.before: list[set[int]] = []
        self.never: set[int] = set()

    def add(self, *before: int | None) -> int:
        self.before.append({point for point in before if point is not None})
        return len(self.before) - 1

    def happened(self, point: int | None) -> bool:
        """Whether a point has happened, given the points added so far."""
        return point is None or point in self.all_happened()

    def all_happened(self) -> set[int]:
        """Returns the points that happen: those that depend neither on a point in `never` nor on a cycle."""
        found: set[int] = set()
        left = [point for point in range(len(self.before)) if point not in self.never]
        while True:
            later = []
            for point in left:
                if self.before[point] <= found:
                    found.add(point)
                else:
                    later.append(point)
            if len(later) == len(left):
                return found
            left = later

    def closure(self, more: dict[int, int]) -> list[int] | None:
        """Returns for each point that has happened a bit mask of all points before it, or None if there is a cycle.
        `more`: one further edge for each of some points.
        """
        masks = [0] * len(self.before)
        left, found = self.all_happened(), set[int]()
        while left:
            ready = [
                point for point in left if self.before[point] <= found and more.get(point, point) in {point, *found}
            ]
            if not ready:
                return None
            for point in ready:
                for one in (*self.before[point], *([more[point]] if point in more else [])):
                    masks[point] |= masks[one] | 1 << one
            found.update(ready)
            left.difference_update(ready)
        return masks


def moved(op: str, count: int, root: int | None, rows: list[tuple[int, ...]], size: int) -> list[list[int]]:
    """Returns how many elements each member (first index) sends to each (second). `rows`: sizes; for an all_to_all one
    row for each member.
    """
    everybody = range(size)
    match op:
        case "all_reduce":
            return [[count] * size for _ in everybody]
        case "broadcast" | "scatter":
            return [[count if one == root else 0] * size for one in everybody]
        case "reduce" | "gather":
            return [[count if one == root else 0 for one in everybody] for _ in everybody]
        case "all_gather":
            return [[rows[0][one]] * size for one in everybody]
        case "reduce_scatter":
            return [list(rows[0]) for _ in everybody]
        case "all_to_all":
            return [list(row) for row in rows]
        case "barrier":
            return [[1] * size for _ in everybody]
    raise ValueError(op)


LIKE = {"broadcast": "scatter", "reduce": "gather"}
"""Maps a collective to another one with the same order. A third of the first kind are replaced by the second."""


class Call(NamedTuple):
    """A collective that some members have not reached yet: the fields of each member's call, and the points of its
    arrival and its end.
    """

    fields: list[dict[str, Any]]
    needs: list[set[int]]
    came: list[int]
    through: list[int]
    idle: list[bool]
    left: set[int]


class Program:
    """A random program of one to three ranks."""

    def __init__(self, seed: int, streams: int | None = None, ops: int = 60) -> None:
        self.rng = random.Random(seed)
        self.size = self.rng.choice([1, 2, 2, 3, 3])
        self.made = Made(self.size)
        self.names = STREAMS[: streams or self.rng.choice([2, 3])]
        self.graph = Graph()
        self.accesses: list[Access] = []
        self.host = [self.graph.add() for _ in range(self.size)]
        self.tails: list[dict[str, int | None]] = [dict.fromkeys(self.names) for _ in range(self.size)]
        self.idle: set[tuple[int, int]] = set()  # (rank, journal index) of device collectives in which it moves no data
        self.last: dict[tuple[int, str], int] = {}  # (rank, communicator) -> the end of its last op there
        self.events: list[list[tuple[int, int]]] = [[] for _ in range(self.size)]
        self.calls: dict[str, list[Call]] = {"dp": [], "ep": [], "cpu": []}
        self.works: list[list[tuple[Any, int]]] = [[] for _ in range(self.size)]
        self.sends: dict[tuple[str, int, int], list[int]] = {}
        self.posts: dict[int, dict[int, list[Message]]] = {rank: {} for rank in range(self.size)}
        self.takes: dict[int, list[Message]] = {rank: [] for rank in range(self.size)}
        self.arrived: list[list[Any]] = [[] for _ in range(self.size)]
        self.contents = self.rng.choice(["all", "ok", "mixed"])
        self.talks = self.rng.random() < 0.5
        self.groups = 0
        for _ in range(self.rng.randint(10, ops)):
            self.act()
        if self.rng.random() < 0.7:  # otherwise some ranks hang in a collective
            for communicator, calls in self.calls.items():
                for rank in [rank for call in calls for rank in sorted(call.left)]:
                    self.come(communicator, rank, "host" if communicator == "cpu" else "device")
        for rank in range(self.size):  # an await shows how far a host has come
            self.await_(rank)

    def act(self) -> None:
        actions = ["launch"] * 6 + ["order"] * 3 + ["mark", "wait", "read", "ask"]
        actions += ["collective"] * 4 + ["join", "await_", "send", "recv", "group"]
        actions += ["post", "take"] * (6 if self.talks else 2)
        getattr(self, self.rng.choice(actions))(self.rng.randrange(self.size))

    # ---- points

    def issue(self, rank: int, *after: int | None) -> int:
        self.host[rank] = self.graph.add(self.host[rank], *after)
        return self.host[rank]

    def put(self, rank: int, stream: str, *after: int | None) -> int:
        point = self.graph.add(self.tails[rank][stream], self.issue(rank), *after)
        self.tails[rank][stream] = point
        return point

    def touches(self, rank: int, point: int) -> None:
        self.accesses.append(Access(point, rank, len(self.made[rank].journal) - 1))

    def stream(self) -> str:
        return self.rng.choice(self.names)

    # ---- ops of one stream

    def launch(self, rank: int) -> None:
        stream = self.stream()
        self.made[rank].launch("kernel", stream)
        self.touches(rank, self.put(rank, stream))

    def order(self, rank: int) -> None:
        self.mark(rank)
        self.wait(rank)

    def mark(self, rank: int) -> None:
        stream = self.stream()
        self.events[rank].append((self.made[rank].mark(stream), self.put(rank, stream)))

    def wait(self, rank: int) -> None:
        if self.events[rank]:
            event, point = self.rng.choice(self.events[rank][-4:])
            stream = self.stream()
            self.made[rank].wait(stream, event)
            self.put(rank, stream, point)

    def read(self, rank: int) -> None:
        stream = self.stream()
        if self.graph.happened(self.tails[rank][stream]):
            work = self.made[rank].begin_read(stream)
            point = self.put(rank, stream)
            self.touches(rank, point)
            self.made[rank].learned(work)
            self.issue(rank, point)

    def ask(self, rank: int) -> None:
        if self.events[rank]:
            event, point = self.rng.choice(self.events[rank])
            how, passed = self.rng.choice(["query", "synchronize"]), self.graph.happened(point)
            if passed or how == "query":
                passed = passed and (how == "synchronize" or self.rng.random() < 0.7)
                self.made[rank].learned(self.made[rank].ask(how, event), passed)
                self.issue(rank, point if passed else None)

    # ---- collectives

    def call(self, domain: str) -> Call:
        """Draws a collective of any op. It may move no elements, for all members or for some."""
        size, rng = self.size, self.rng
        kinds = ["all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "all_to_all"]
        op = rng.choice([*kinds, "barrier"] if domain == "host" else kinds)
        count = rng.choice([0, 4, 4]) if op != "barrier" else 0
        root = rng.randrange(size) if op in ("broadcast", "reduce") else None
        rows = [tuple(rng.choice([0, 1, 2]) for _ in range(size)) for _ in range(size)]
        if op in LIKE and not rows[0][0]:
            op = LIKE[op]
        each = moved(op, count, root, rows, size)
        fields: list[dict[str, Any]] = []
        for rank in range(size):
            field: dict[str, Any] = {"op": op, "count": count, "root": root}
            if op == "all_gather":
                field |= {"count": rows[0][rank], "sizes": rows[0]}
            elif op == "reduce_scatter":
                field |= {"count": sum(rows[0]), "sizes": rows[0]}
            elif op == "all_to_all":
                field |= {"count": sum(rows[rank]), "sizes": (*rows[rank], *[row[rank] for row in rows])}
            fields.append(field)
        gives = root if op in ("broadcast", "scatter") else None  # the root has its data and waits for no member
        needs = [{one for one in range(size) if each[one][rank] and gives != rank} for rank in range(size)]
        came = [self.graph.add() for _ in range(size)]
        through = [self.graph.add(came[rank], *[came[one] for one in needs[rank]]) for rank in range(size)]
        self.graph.never.update(came)  # until the members arrive
        idle = [not any(each[rank]) and not any(row[rank] for row in each) for rank in range(size)]
        return Call(fields, needs, came, through, idle, set(range(size)))

    def next_call(self, communicator: str, rank: int, domain: str) -> Call:
        """Returns the next call that the rank makes. Now and then all open calls are completed first."""
        if self.rng.random() < 0.3:
            for call in self.calls[communicator]:
                for one in sorted(call.left):
                    self.come(communicator, one, domain)
        calls = self.calls[communicator]
        found = next((call for call in calls if rank in call.left), None)
        if found is None:
            found = self.call(domain)
            calls.append(found)
        return found

    def collective(self, rank: int) -> None:
        self.come(self.rng.choice(["dp", "dp", "ep"]), rank, "device")

    def join(self, rank: int) -> None:
        self.come("cpu", rank, "host")

    def come(self, communicator: str, rank: int, domain: str) -> None:
        call = next((one for one in self.calls[communicator] if rank in one.left), None)
        if call is None:
            call = self.next_call(communicator, rank, domain)
        if rank not in call.left:
            return
        call.left.discard(rank)
        point = call.came[rank]
        self.graph.never.discard(point)
        stream = self.stream() if domain == "device" else None
        work = self.made[rank].collective(communicator, stream, **call.fields[rank])
        if stream is None:
            self.graph.before[point] |= {self.issue(rank)}
            self.works[rank].append((work, call.through[rank]))
            return
        if call.idle[rank]:  # a call without data orders nothing
            self.graph.before[point].add(self.issue(rank))
            self.idle.add((rank, len(self.made[rank].journal) - 1))
            return
        before = {self.tails[rank][stream], self.issue(rank), self.last.get((rank, communicator))}
        self.graph.before[point] |= {one for one in before if one is not None}
        self.tails[rank][stream] = self.last[rank, communicator] = call.through[rank]
        self.touches(rank, call.through[rank])

    def await_(self, rank: int) -> None:
        """The host awaits the works that it has started and that have ended."""
        works, self.works[rank] = self.works[rank], []
        for work, point in works:
            if self.graph.happened(point):
                self.made[rank].learned(work)
                self.issue(rank, point)
            else:
                self.works[rank].append((work, point))

    # ---- transfers

    def peer(self, rank: int) -> int:
        return self.rng.choice([one for one in range(self.size) if one != rank])

    def send(self, rank: int) -> None:
        if self.size > 1:
            stream, to = self.stream(), self.peer(rank)
            communicator = self.rng.choice(["pp", "ep"])
            self.made[rank].transfer("send", to, stream, communicator=communicator)
            point = self.put(rank, stream, self.last.get((rank, communicator)))
            self.last[rank, communicator] = point
            self.touches(rank, point)
            self.sends.setdefault((communicator, rank, to), []).append(point)

    def recv(self, _: int) -> None:
        waiting = [line for line, sends in self.sends.items() if sends]
        if waiting:
            communicator, sender, to = line = self.rng.choice(waiting)
            stream = self.stream()
            self.made[to].transfer("recv", sender, stream, communicator=communicator)
            point = self.put(to, stream, self.last.get((to, communicator)), self.sends[line].pop(0))
            self.last[to, communicator] = point
            self.touches(to, point)

    def group(self, _: int) -> None:
        """Two ranks exchange transfers, each rank within one coalesced group. The transfers are in any order, sometimes
        with a kernel between them.
        """
        if self.size < 2:
            return
        pair = self.rng.sample(range(self.size), 2)
        if any(sends for (communicator, *_), sends in self.sends.items() if communicator == "pp"):
            return
        lists = []
        for rank, peer in (pair, pair[::-1]):
            items = [("send", peer)] * self.rng.choice([1, 1, 2])
            lists.append((rank, peer, items))
        whole = []
        for (rank, peer, mine), (_, _, theirs) in zip(lists, lists[::-1], strict=True):
            items = [*mine, *[("recv", peer)] * len(theirs)]
            self.rng.shuffle(items)
            whole.append((rank, items))
        received: list[tuple[int, int, int]] = []
        for rank, items in whole:
            self.groups += 1
            stream = self.stream()
            opened = self.graph.add(self.tails[rank][stream], self.issue(rank), self.last.get((rank, "pp")))
            points = []
            for index, (op, peer) in enumerate(items):
                if index and self.rng.random() < 0.3:
                    self.made[rank].launch("within", stream)
                    self.touches(rank, self.put(rank, stream))
                self.made[rank].transfer(op, peer, stream, group=self.groups)
                point = self.graph.add(opened, self.issue(rank))
                self.touches(rank, point)
                points.append(point)
                if op == "send":
                    self.sends.setdefault(("pp", rank, peer), []).append(point)
                else:
                    received.append((point, peer, rank))
            self.tails[rank][stream] = self.graph.add(self.tails[rank][stream], opened, *points)
            self.last[rank, "pp"] = self.tails[rank][stream] or opened
        for point, sender, to in received:
            self.graph.before[point].add(self.sends["pp", sender, to].pop(0))

    # ---- messages

    def post(self, rank: int) -> None:
        to = self.rng.randrange(self.size)
        many = sum(map(len, self.posts[to].values()))
        if many > 7:
            return
        content = {"all": (to, rank, many), "ok": "ok", "mixed": self.rng.choice("ab")}[self.contents]
        self.made[rank].post(to, content)
        self.posts[to].setdefault(rank, []).append(Message(content, self.issue(rank)))
        line = self.arrived[to]  # it arrives at any position after the sender's last message
        own = [index for index, (sender, _) in enumerate(line) if sender == rank]
        line.insert(self.rng.randint(own[-1] + 1 if own else 0, len(line)), (rank, content))

    def take(self, rank: int) -> None:
        if self.arrived[rank]:
            _, content = self.arrived[rank].pop(0)
            self.made[rank].learned(self.made[rank].take(), content)
            self.takes[rank].append(Message(content, self.issue(rank)))

    # ---- the true order

    def explanations(self, rank: int) -> Iterator[dict[int, int]]:
        """Yields each assignment of a rank's takes to posts that keeps the order of each sender."""
        posts, takes = self.posts[rank], self.takes[rank]

        def go(index: int, at: dict[int, int]) -> Iterator[dict[int, int]]:
            if index == len(takes):
                yield {}
                return
            for sender, own in posts.items():
                if at[sender] < len(own) and own[at[sender]].content == takes[index].content:
                    for rest in go(index + 1, at | {sender: at[sender] + 1}):
                        yield {takes[index].point: own[at[sender]].point, **rest}

        yield from go(0, dict.fromkeys(posts, 0))

    def orders(self, limit: int = 400) -> list[int] | None:
        """Returns for each point the points that come before it in all explanations of the messages. None if there are
        more than `limit` explanations.
        """
        choices = [list(self.explanations(rank)) for rank in range(self.size)]
        count = 1
        for one in choices:
            count *= len(one)
        if count > limit:
            return None
        common: list[int] | None = None
        for chosen in product(*choices):
            more = {point: post for one in chosen for point, post in one.items()}
            masks = self.graph.closure(more)
            if masks is not None:  # a cycle: a message cannot come from a later post
                common = masks if common is None else [one & other for one, other in zip(common, masks, strict=True)]
        assert common is not None
        return common
