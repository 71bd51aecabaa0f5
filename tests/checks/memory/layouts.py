"""Draws random programs that allocate and free memory, and computes the verdict over all layouts of this memory.

The module uses nothing of the checks, which it tests. A program is a list of ops in issue order, with the edges of the
contract. The memory of a pool is a line of units, enough for all buffers, and an allocation may get any free units in a
row. Freed units are free at once. If record_stream named streams, the units are free after these streams have passed
their positions at the free. Then the allocation comes after these positions, and other layouts are impossible.

A program is racy if in some layout two accesses of a common unit have no order, and one of them is a write. It is stale
if an access comes after a write of a newer buffer in this unit.

    program = Layouts(seed)
    program.verdict()         # Verdict(race=True, stale=False)
    program.made              # its journals
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from dpsim.contract.ops import SMALL_BLOCK, Ref
from tests.checks.handmade import Made

SCALE = {False: 1, True: SMALL_BLOCK // 4}
"""The elements of a unit, in small and in large blocks. A large buffer has at least two units, so its size is that of
no small block.
"""


OFTEN = {"take": 3, "launch": 4, "order": 3, "free": 4, "name": 4, "sync": 1, "recv": 1, "ask": 2, "late": 2, "lend": 2}
"""The actions of a program, and their weights."""


class Touch(NamedTuple):
    node: int
    buffer: int
    first: int  # unit
    end: int
    writes: bool


class Taken(NamedTuple):
    """A buffer: its reference, the node of its allocation, its pool, and its size in units."""

    ref: Ref
    node: int
    pool: tuple[str, bool]
    size: int


class Verdict(NamedTuple):
    race: bool
    stale: bool


class Layouts:
    """A random program of one rank, perhaps with a second rank that answers it, and all layouts of its memory."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        self.names = ["main", "side", "copy", "extra"][: rng.choice([2, 2, 3, 4])]
        self.homes = self.names[: rng.choice([1, 1, 2])]
        self.peer = rng.random() < 0.5
        self.made = Made(1 + self.peer)
        self.most = rng.choice([3, 4, 4, 5])
        self.asks, self.hears = rng.choice(self.names), rng.choice(self.names)  # a communicator has one stream
        self.edges: list[list[int]] = []
        self.host = self.node()
        self.last: dict[str, int] = {}
        self.touches: list[Touch] = []
        self.taken: list[Taken] = []
        self.freed: dict[int, int] = {}  # buffer -> node of the host
        self.marks: dict[int, list[int]] = {}  # buffer -> the points until which streams keep it
        self.used: dict[int, set[str]] = {}
        self.owed: list[int] = []  # answers of the other rank that no message has requested yet
        self.answered: int | None = None
        for _ in range(rng.randint(8, 22)):
            self.act()
        while self.owed:
            self.ask()

    # ---- the program

    def act(self) -> None:
        rng, live = self.rng, [one for one in self.taken if one.ref[0] not in self.freed]
        what = rng.choice([word for word, often in OFTEN.items() for _ in range(often)])
        if what == "take" and len(self.taken) < self.most:
            self.take()
        elif what == "launch" and live:
            reads = [one for one in live if rng.random() < 0.5]
            self.launch(rng.choice(self.names), [one for one in live if rng.random() < 0.3], reads)
        elif what == "order":
            self.order(*rng.sample(self.names, 2))
        elif what == "free" and live:
            self.free(rng.choice(live))
        elif what == "name" and live:
            self.name(rng.choice(live), rng.choice(self.names))
        elif what == "sync" and not self.owed:
            stream = rng.choice(self.names)
            self.made[0].learned(self.made[0].ask("synchronize", self.made[0].mark(stream)), None)
            self.issue(self.put(stream))
        elif what == "recv" and self.peer:
            self.recv()
        elif what == "late" and self.peer and live and len(self.taken) < self.most and not self.owed:
            one = rng.choice(live)
            self.recv()
            self.launch(self.hears, [], [one], whole=True)
            if rng.random() < 0.5:
                self.name(one, self.hears)
                self.launch(rng.choice(self.names), [], [one], whole=True)
            self.free(one)
            self.take()
        elif what == "lend" and live and len(self.taken) < self.most:
            one, stream = rng.choice(live), rng.choice(self.names)
            if stream != one.pool[0]:
                self.order(one.pool[0], stream)
            self.launch(stream, [], [one], whole=True)
            self.name(one, stream)
            self.free(one)
            self.take()
        elif what == "ask" and self.owed:
            self.ask()

    def order(self, before: str, after: str) -> None:
        self.made[0].order(before, after)
        mark = self.put(before)
        self.put(after, mark)

    def take(self) -> None:
        rng = self.rng
        home, large, size = rng.choice(self.homes), rng.random() < 0.2, rng.choice([1, 2])
        large = large and size > 1
        ref = self.made[0].alloc(home, size * SCALE[large], (len(self.taken), 0))
        self.taken.append(Taken(ref, self.issue(), (home, large), size))
        if rng.random() < 0.9:
            self.launch(home if rng.random() < 0.6 else rng.choice(self.names), [self.taken[-1]], [], whole=True)

    def launch(self, stream: str, writes: list[Taken], reads: list[Taken], whole: bool = False) -> None:
        refs: dict[bool, list[Ref]] = {True: [], False: []}
        touches = []
        for kind, buffers in ((False, reads), (True, writes)):
            for one in buffers:
                first, end = sorted(self.rng.sample(range(one.size + 1), 2)) if not whole else (0, one.size)
                if not kind and not any(t.buffer == one.ref[0] and t.writes for t in self.touches):
                    continue  # no op wrote it, which is another finding
                scale = SCALE[one.pool[1]]
                refs[kind].append((one.ref[0], first * scale, end * scale))
                touches.append((one.ref[0], first, end, kind))
        self.made[0].launch("k", stream, refs[False], refs[True])
        node = self.put(stream)
        self.touches += [Touch(node, *touch) for touch in touches]

    def name(self, one: Taken, stream: str) -> None:
        self.made[0].used(stream, one.ref)
        self.used.setdefault(one.ref[0], set()).add(stream)

    def free(self, one: Taken) -> None:
        buffer, (home, _) = one.ref[0], one.pool
        self.made[0].free(home, one.ref)
        self.freed[buffer] = self.issue()
        named = self.used.get(buffer, set()) - {home}
        self.marks[buffer] = [self.put(name) for name in sorted(named)]

    def recv(self) -> None:
        """A stream waits for the next answer of the other rank."""
        self.made[0].transfer("recv", 1, self.hears, communicator="ep")
        answer = self.node()  # the other rank's send, whose predecessors are not known yet
        self.put(self.hears, answer)
        self.owed.append(answer)

    def ask(self) -> None:
        """A message of the host, or of a stream, requests the next answer of the other rank."""
        a, b, answer = self.made[0], self.made[1], self.owed.pop(0)
        if self.rng.random() < 0.5:
            letter = len(b.journal)
            a.post(1, letter)
            asked = self.issue()
            b.learned(b.take(), letter)
        else:
            a.transfer("send", 1, self.asks)
            asked = self.put(self.asks)
            b.transfer("recv", 0, "main")
        b.transfer("send", 0, "main", communicator="ep")
        self.edges[answer] = [asked] if self.answered is None else [asked, self.answered]
        self.answered = answer

    # ---- the graph

    def node(self, *before: int) -> int:
        self.edges.append(list(before))
        return len(self.edges) - 1

    def issue(self, *before: int) -> int:
        self.host = self.node(self.host, *before)
        return self.host

    def put(self, stream: str, *before: int) -> int:
        last = [self.last[stream]] if stream in self.last else []
        self.last[stream] = self.node(self.issue(), *last, *before)
        return self.last[stream]

    def closure(self, more: frozenset[tuple[int, int]]) -> list[int] | None:
        """Returns for each node a bit mask of all nodes before it, or None if there is a cycle."""
        into = [list(before) for before in self.edges]
        for before, after in more:
            into[after].append(before)
        masks: dict[int, int] = {}
        open_: set[int] = set()

        def visit(node: int) -> bool:
            if node in masks:
                return True
            if node in open_:
                return False
            open_.add(node)
            mask = 0
            for other in into[node]:
                if not visit(other):
                    return False
                mask |= masks[other] | 1 << other
            masks[node] = mask
            return True

        return [masks[node] for node in range(len(into))] if all(map(visit, range(len(into)))) else None

    # ---- layouts

    def stuck(self) -> bool:
        """Whether the program hangs, because a stream waits for an answer that is requested only after it."""
        return self.closure(frozenset()) is None

    def layouts(self, starts: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
        """Yields the first units of all buffers, in each possible layout."""
        number = len(starts)
        if number == len(self.taken):
            yield starts
            return
        new = self.taken[number]
        busy = set()
        for old, start in zip(self.taken, starts, strict=False):
            if old.pool == new.pool and not self.freed.get(old.ref[0], new.node) < new.node:
                busy |= {*range(start, start + old.size)}
        line = sum(one.size for one in self.taken if one.pool == new.pool)
        for start in range(line - new.size + 1):
            if not busy & {*range(start, start + new.size)}:
                yield from self.layouts((*starts, start))

    def verdict(self) -> Verdict:
        race = stale = False
        known: dict[frozenset[tuple[int, int]], list[int] | None] = {}
        seen: set[frozenset[tuple[int, int, int]]] = set()
        surely = self.closure(frozenset())
        assert surely is not None, "a program that hangs"
        touches = self._written(surely)
        for starts in self.layouts():
            shared = frozenset(
                (old.ref[0], new.ref[0], starts[new.ref[0]] - starts[old.ref[0]])
                for new in self.taken
                for old in self.taken[: new.ref[0]]
                if old.pool == new.pool and self._overlap(starts, old, new)
            )
            if shared in seen:
                continue
            seen.add(shared)
            more = frozenset((mark, self.taken[new].node) for old, new, _ in shared for mark in self.marks.get(old, []))
            if more not in known:
                known[more] = self.closure(more)
            before = known[more]
            if before is not None:
                found = self._conflicts(touches, starts, before, surely)
                race, stale = race or found.race, stale or found.stale
        return Verdict(race, stale)

    @staticmethod
    def _overlap(starts: tuple[int, ...], one: Taken, other: Taken) -> bool:
        a, b = starts[one.ref[0]], starts[other.ref[0]]
        return a < b + other.size and b < a + one.size

    def _written(self, surely: list[int]) -> list[Touch]:
        """Returns all accesses, unit by unit, without reads of a unit that no op wrote before, which are another
        finding.
        """
        units = [one._replace(first=unit, end=unit + 1) for one in self.touches for unit in range(one.first, one.end)]
        writes = [one for one in units if one.writes]
        return writes + [
            one
            for one in units
            if not one.writes
            and any(
                (write.buffer, write.first) == (one.buffer, one.first) and not surely[write.node] >> one.node & 1
                for write in writes
            )
        ]

    def _conflicts(
        self, touches: list[Touch], starts: tuple[int, ...], before: list[int], surely: list[int]
    ) -> Verdict:
        """Returns the verdict of one layout. `before`: the order in this layout; `surely`: the order in every
        layout.
        """
        race = stale = False
        for index, one in enumerate(touches):
            for other in touches[:index]:
                if not (one.writes or other.writes) or one.node == other.node:
                    continue
                if self.taken[one.buffer].pool != self.taken[other.buffer].pool:
                    continue
                a, b = starts[one.buffer], starts[other.buffer]
                if a + one.first < b + other.end and b + other.first < a + one.end:
                    if not (before[one.node] >> other.node & 1 or before[other.node] >> one.node & 1):
                        race = True
                    old, new = sorted((one, other), key=lambda touch: touch.buffer)
                    if old.buffer < new.buffer and new.writes and surely[old.node] >> new.node & 1:
                        stale = True
        return Verdict(race, stale)
