"""Tests the memory of graphs that share a pool, with random captures, frees and replays on one stream. A small model of
the contract (`Model`) predicts each read.

The contract has two rules. A freed buffer keeps what the last replay wrote, until a kernel writes pool memory that was
allocated after the free. And each kernel allocates memory for itself, and frees it at once.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from dpsim.contract.interface import Buffer, Rank
from tests.programs import Script, set_to
from tests.properties import nightly_but
from tests.sim.programs import MODES, see, usual_world

SIZE = 300


def copied(source: Any, target: Any) -> None:
    target[:] = source


class Model:
    """Predicts the content of each buffer, and which buffers share memory."""

    def __init__(self) -> None:
        self.time = 0
        self.taken: dict[str, int] = {}
        self.released: dict[str, int] = {}
        self.holds: dict[str, int | None] = {}
        self.wrong = False

    def tick(self) -> int:
        self.time += 1
        return self.time

    def write(self, name: str, value: int | None, call: int) -> None:
        """Writes `value`. Other buffers lose their content if they may share memory with `name`, or with the memory
        that the kernel allocated for itself at time `call`.
        """
        never = self.time + 1
        for other in self.taken:
            if call < self.taken[other] or self.released.get(other, never) < call:
                self.holds[other] = None
        for other in self.taken:
            if self.released.get(other, never) < self.taken[name] or self.released.get(name, never) < self.taken[other]:
                self.holds[other] = None
        self.holds[name] = value

    def read(self, name: str) -> int | None:
        self.wrong |= self.holds.get(name) is None
        return self.holds.get(name)


class Plan:
    """Draws captures of a few graphs, and replays and reads of them."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        names: list[str] = []
        self.graphs: list[list[tuple[str, ...]]] = []
        loose: set[str] = set()
        for graph in range(draw.randint(1, 3)):
            live = [name for name in names if name not in loose]
            if len(live) > 1 and draw.random() < 0.5:  # this graph allocates nothing; only its kernel does
                self.graphs.append([("copy", *draw.sample(live, 2)), ("end",)])
                continue
            calls: list[tuple[str, ...]] = []
            own: list[str] = []
            for at in range(draw.randint(1, 3)):
                name = f"m{graph}{at}"
                calls += [("alloc", name), ("write", name)]
                own.append(name)
                if draw.random() < 0.3:
                    calls.append(("copy", draw.choice(own), name))
                if draw.random() < 0.5:
                    calls.append(("free", name))
                    loose.add(name)
            names += own
            later = [name for name in own if name not in loose and draw.random() < 0.3]
            loose.update(later)
            self.graphs.append([*calls, ("end",), *[("free", name) for name in later]])
        self.names = names
        self.turns: list[tuple[str, Any]] = []
        for _ in range(draw.randint(2, 5)):
            self.turns.append(("replay", draw.randrange(len(self.graphs))))
            if draw.random() < 0.6:
                self.turns.append(("read", draw.choice(names)))

    def expected(self) -> tuple[bool, list[int | None]]:
        """Returns whether any read is stale, and the values of all reads."""
        model, seen = Model(), list[int | None]()
        called: dict[tuple[int, int], int] = {}
        for graph, calls in enumerate(self.graphs):
            for at, (what, *names) in enumerate(calls):
                if what in ("write", "copy"):
                    called[graph, at] = model.tick()
                elif what == "alloc":
                    model.taken[names[0]] = model.tick()
                elif what == "free":
                    model.released[names[0]] = model.tick()
        for what, of in self.turns:
            if what == "read":
                seen.append(model.read(of))
                continue
            for at, (call, *names) in enumerate(self.graphs[of]):
                if call == "write":
                    model.write(names[0], int(names[0][1:]), called[of, at])
                elif call == "copy":
                    model.write(names[1], model.read(names[0]), called[of, at])
        return model.wrong, seen

    async def capture(self, rank: Rank, number: int, kept: dict[str, Buffer]) -> None:
        main = rank.stream("main")
        ended = self.graphs[number].index(("end",))
        async with rank.graph(f"g{number}", "pool").capture(main):
            for what, *names in self.graphs[number][:ended]:
                if what == "alloc":
                    kept[names[0]] = main.alloc(SIZE, "int32", names[0])
                elif what == "write":
                    main.launch("write", set_to, writes=[kept[names[0]]], args=(int(names[0][1:]),))
                elif what == "copy" and names[0] != names[1]:
                    main.launch("copy", copied, reads=[kept[names[0]]], writes=[kept[names[1]]])
                elif what == "free":
                    kept[names[0]].free()
        for _, name in self.graphs[number][ended + 1 :]:
            kept[name].free()

    def script(self) -> Script:
        async def script(rank: Rank) -> Any:
            kept: dict[str, Buffer] = {}
            for number in range(len(self.graphs)):
                await self.capture(rank, number, kept)
            seen = []
            for what, of in self.turns:
                if what == "replay":
                    rank.graph(f"g{of}").replay(rank.stream("main"), "go")
                else:
                    seen.append(int((await kept[of].read("out"))[0]))
            return tuple(seen)

        return script


def compared(seeds: range) -> Counter[bool]:
    said: Counter[bool] = Counter()
    for seed in seeds:
        plan = Plan(seed)
        stale, values = plan.expected()
        for mode in list(MODES)[:2]:
            seen = see(plan.script(), usual_world(1), mode)
            told_so = f"seed {seed}, {mode}: {plan.graphs} {plan.turns}: {seen.classes}"
            assert stale == bool(seen.classes), told_so
            assert all(klass.startswith("STALE:") for klass in seen.classes), told_so
            assert stale or seen.learned == [tuple(values)], told_so
        said[stale] += 1
    return said


def test_graphs_that_share_a_pool() -> None:
    said = compared(range(200))
    assert min(said[True], said[False]) > 40, said


@pytest.mark.parametrize("first", nightly_but(range(1_000, 11_000, 500), lambda first: first == 1_000))
def test_graphs_that_share_a_pool_in_many_programs(first: int) -> None:
    compared(range(first, first + 500))
