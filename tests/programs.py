"""Small programs for tests: a world in one line, a coroutine function as the program, and helpers that run or explore
it.

    async def sums(rank):
        x = rank.stream("main").alloc(1, "int32", "x")
        rank.stream("main").launch("fill", set_to, writes=[x], args=(rank.rank,))
        rank.device("dp").all_reduce(x, rank.stream("main"))

    world = world_of(2, devices=["dp"])
    judged(world, sums)                # the findings of one run
    explored(world, sums).verdict      # the verdict over all schedules

A program with more than one method, or one that dpsim finds by name, is a separate class.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.subject import Subject
from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.world import CommunicatorSpec, Run, World
from dpsim.diagnose.words.told import Told
from dpsim.sim.backend import SimBackend
from tests.judged import judge

Script: TypeAlias = Callable[[Rank], Coroutine[Any, Any, Any]]

OWN = "own"
"""The kind of a communicator of one rank."""


class Scripted(Program[Any]):
    """Every rank runs the script in step 0. If the script returns a value, the rank decides on it in its group OWN."""

    def __init__(self, script: Script) -> None:
        self.script = script

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        learned = await self.script(rank)
        if learned is not None:
            rank.decide("learned", learned, OWN, local=True)


def world_of(size: int, hosts: Sequence[str] = (), devices: Sequence[str] = (), among: int = 0, **more: Any) -> World:
    """Returns a world whose communicators have the first `among` ranks, or all ranks if `among` is 0."""
    members = tuple(range(among or size))
    specs = [CommunicatorSpec(kind, kind, "host", members) for kind in hosts]
    specs += [CommunicatorSpec(kind, kind, "device", members) for kind in devices]
    return World(size, tuple(specs), **more)


def run(world: World, script: Script, **settings: Any) -> Run:
    """Runs the script once on the simulation. `settings` are the backend's; without `choose` the run is timed."""
    return SimBackend(**settings).run_program(world, Scripted(script), None)


def judged(world: World, script: Script, **settings: Any) -> list[Told]:
    """Returns the findings of one run, as text."""
    return judge(world, run(world, script, **settings))


def explored(world: World, script: Script, strategy: str = "dpor", schedules: int = 1_000) -> Explored:
    """Explores all schedules, or at most `schedules` of them."""
    return explore_subject(Subject(world, Scripted(script)), strategy, schedules=schedules)


# ---- kernels


def set_to(target: Any, value: int) -> None:
    target[:] = value


def copy(source: Any, target: Any) -> None:
    target[:] = source


def add(source: Any, target: Any) -> None:
    target[:] += source


def touch(*arrays: Any) -> None:
    """A kernel that uses buffers, and whose result does not matter."""
