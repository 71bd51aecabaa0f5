"""Helpers of tests in which a small program hangs, and a rank that did nothing wrong must not be blamed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpsim.contract.interface import Rank
from dpsim.contract.world import CommunicatorSpec, World
from dpsim.diagnose.words.told import Told
from tests.judged import judge
from tests.programs import Script, run, world_of

ONE = np.ones(1, np.int32)


def found(world: World, script: Script) -> list[Told]:
    return judge(world, run(world, script))


def first(ranks: int, script: Script) -> Told:
    return found(world_of(ranks, ["h"]), script)[0]


def grouped(ranks: int, *groups: tuple[int, ...]) -> World:
    """Returns a world with a group of all ranks, and several groups of the kind `sub`."""
    world = world_of(ranks, ["h"])
    subs = tuple(CommunicatorSpec("sub", f"sub.{at}", "host", some) for at, some in enumerate(groups))
    return replace(world, communicators=(*world.communicators, *subs))


def blamed(finding: Told) -> tuple[int, int] | None:
    culprit = finding.culprit
    return None if culprit is None else (culprit.rank, culprit.step)


def words(finding: Told) -> str:
    return " ".join([finding.message, *finding.details, *finding.ground, finding.why])


async def agree(rank: Rank, value: int) -> int:
    return int((await rank.host("h").all_reduce(np.array([value], np.int32), op="max", site="agree"))[0])
