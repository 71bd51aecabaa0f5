"""Tests that DPOR finds the same classes if its search is divided into branches, in whatever order these come back.

DPOR is the search that runs one schedule of each class; schedules of one class differ only in the order of steps that
commute. A `Tree` divides such a search into branches, which workers explore at the same time. The tests compare the
tree with DPOR as one search, or with all schedules of a toy program.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable
from typing import Any

import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.schedule import CutOff, Strategy
from dpsim.explore.order import Labels
from dpsim.explore.strategies import branches
from dpsim.explore.strategies.branches import SharedPlace, Tree
from dpsim.explore.strategies.dpor import Dpor
from tests.explore.strategies.test_within import World, real_world, toy_world
from tests.explore.toy import at_random, every
from tests.programs import run, world_of
from tests.properties import of_night
from tests.soundness.worlds import filled
from tests.worlds.cases import CASES
from tests.worlds.test_machine_gaps import fails


def in_branches(
    world: World, seed: int, width: int = 4, each: int = 2, kind: type[Tree] = Tree
) -> tuple[Counter[Hashable], int]:
    """Explores a world in branches. Returns how often whole runs showed each result, and how many runs were cut off.

    At most four branches are out at a time. Each branch has its own table of labels, as in another process, and makes
    `each` runs. The branches come back in a random order, which `seed` fixes.
    """
    rng, tree, seen, cut = random.Random(seed), kind(width, unsplit=1), Counter[Hashable](), 0
    out: list[Any] = []
    while not tree.over:
        while len(out) < 4 and (branch := tree.next()) is not None:
            out.append(branch)
        branch = out.pop(rng.randrange(len(out)))
        chosen = Dpor(Labels())
        if branch.state is not None:
            chosen.resume(branch.state)
        runs = 0
        while runs < each and chosen.begin():
            runs, whole = runs + 1, True
            try:
                seen[world(chosen)] += 1
            except CutOff:
                whole, cut = False, cut + 1
            chosen.end(whole)
        tree.take(branch.number, chosen.state(), [*chosen.asked], chosen.over, runs)
    return seen, cut


def in_one_piece(world: World) -> set[Hashable]:
    seen, chosen = set(), Dpor()
    while chosen.begin():
        try:
            seen.add(world(chosen))
            whole = True
        except CutOff:
            whole = False
        chosen.end(whole)
    return seen


def misses(seeds: range, kind: type[Tree] = Tree) -> list[int]:
    """Returns the seeds of the toy programs of which the branches do not find every class."""
    toys = {seed: at_random(seed) for seed in seeds}
    return [
        seed
        for seed, toy in toys.items()
        if {*in_branches(toy_world(toy), seed, kind=kind)[0]} != {one.order for one in every(toy)}
    ]


@pytest.mark.parametrize(
    "seeds", [range(0, 60), pytest.param(range(60, 60 + of_night(540)), marks=pytest.mark.nightly)]
)
def test_branches_find_every_class_of_toy_programs(seeds: range) -> None:
    """The branches find every class of random toy programs, which also have slots, draws and actors that may be
    killed.
    """
    assert misses(seeds) == []


REAL = ["wake_pause 2x2 bug", "kill pipeline 2x4", "threads wake kill", "residency 2 ranks 2 slots 2 streams"]


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("seed", [0, 1])
def test_branches_find_every_class_of_worlds(name: str, seed: int) -> None:
    world = real_world(name)
    seen, _ = in_branches(world, seed)
    assert {*seen} == in_one_piece(world)


async def fails_for_mail(rank: Rank) -> None:
    """On rank 0, a kernel raises while an all-reduce is in flight, but only if the message of rank 2 arrives first."""
    if rank.rank:
        rank.send(0, "box", rank.rank, "post")
    first = await rank.mailbox("box").poll("look") if rank.rank == 0 else None
    x = filled(rank.stream("main"), "x", size=1)
    rank.device("d").all_reduce(x, rank.stream("main"), site="sum")
    if first == 2:
        other = rank.stream("other")
        z = other.alloc(1, "int32", "z")
        other.launch("bad", fails, writes=[z])
        await z.read("read.z")
    else:
        await x.read("read")


def failing_world(strategy: Strategy) -> Hashable:
    ran = run(world_of(3, devices=["d"]), fails_for_mail, choose=strategy, memory=False)
    return tuple(tuple(journal) for journal in ran.journals), tuple(ran.ends)


class Deafened(Tree):
    """A faulty tree: it ignores a branch that reports that the search must begin again."""

    def _begin_anew(self, state: Any) -> None:
        pass


@pytest.mark.parametrize(("kind", "whole"), [(Tree, True), (Deafened, False)])
def test_a_kernel_that_raises_late(kind: type[Tree], whole: bool) -> None:
    """If a kernel raises for the first time in some branch, the tree begins the whole search again. A tree that does
    not misses results.
    """
    expected = in_one_piece(failing_world)
    assert len(expected) > 3
    seen = {*in_branches(failing_world, 3, each=1, kind=kind)[0]}
    assert (seen == expected) == whole


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CASES])
def test_branches_find_every_class_of_all_worlds(name: str) -> None:
    world = real_world(name)
    assert {*in_branches(world, 7, width=9, each=5)[0]} == in_one_piece(world)


# ---- faulty trees and shared places


class Deaf(Tree):
    """A faulty tree: it ignores the races that a branch asks it to reverse at shared places."""

    def take(self, number: int, state: Any, asked: Any, over: bool, runs: int) -> None:
        super().take(number, state, [], over, runs)


class Hasty(SharedPlace):
    """A faulty shared place: it makes the next branch before the footprint of the last branch's choice is known. So
    that choice sleeps as if it touched nothing.
    """

    def next(self) -> str | None:
        if self.waits:
            self.tried[self.waits], self.waits = (), ""
        return super().next()


class Once(SharedPlace):
    """A faulty shared place: it makes a branch of only one of the choices that are left."""

    def next(self) -> str | None:
        return None if len(self.claimed) > 1 else super().next()


@pytest.mark.parametrize("twin", [Deaf, Hasty, Once])
def test_a_mistake_is_found(twin: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branches, "SharedPlace", twin if issubclass(twin, SharedPlace) else SharedPlace)
    kind = twin if issubclass(twin, Tree) else Tree
    assert any(misses(range(seed, seed + 1), kind) for seed in range(200))
