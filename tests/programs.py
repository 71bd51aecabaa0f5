"""Small programs for tests: a world in a line, a coroutine function as the program, and what comes of it.

    async def sums(rank):
        x = rank.stream("main").alloc(1, "int32", "x")
        rank.stream("main").launch("fill", set_to, writes=[x], args=(rank.rank,))
        rank.device("dp").all_reduce(x, rank.stream("main"))

    world = world_of(2, devices=["dp"])
    judged(world, sums)                # the findings of one run
    explored(world, sums).verdict      # what all schedules show

A program that has more than one method, or is looked up by name, is a separate class.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.subject import Subject
from dpsim.checks.finding import Finding
from dpsim.checks.judge import judge
from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.world import CommunicatorSpec, Run, World
from dpsim.sim.backend import SimBackend

Script: TypeAlias = Callable[[Rank], Coroutine[Any, Any, Any]]

OWN = "own"
"""The kind of a communicator that a rank has for itself."""


class Scripted(Program[Any]):
    """Every rank runs the script, in step 0. What it returns, if anything, is a decision in its group OWN."""

    def __init__(self, script: Script) -> None:
        self.script = script

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        learned = await self.script(rank)
        if learned is not None:
            rank.decide("learned", learned, OWN, local=True)


def world_of(size: int, hosts: Sequence[str] = (), devices: Sequence[str] = (), among: int = 0, **more: Any) -> World:
    """A world with communicators over the first `among` ranks; all of them if it is 0."""
    members = tuple(range(among or size))
    specs = [CommunicatorSpec(kind, kind, "host", members) for kind in hosts]
    specs += [CommunicatorSpec(kind, kind, "device", members) for kind in devices]
    return World(size, tuple(specs), **more)


def run(world: World, script: Script, **settings: Any) -> Run:
    """One run on the simulation. `settings` are the backend's; without `choose`, ops take time."""
    return SimBackend(**settings).run_program(world, Scripted(script), None)


def judged(world: World, script: Script, **settings: Any) -> list[Finding]:
    """What the checks find in one run."""
    return judge(world, run(world, script, **settings))


def explored(world: World, script: Script, strategy: str = "dpor", schedules: int = 1_000) -> Explored:
    """Explored until every schedule is known, or `schedules` were run."""
    return explore_subject(Subject(world, Scripted(script)), strategy, schedules=schedules)


# ---- kernels


def set_to(target: Any, value: int) -> None:
    target[:] = value


def copy(source: Any, target: Any) -> None:
    target[:] = source


def add(source: Any, target: Any) -> None:
    target[:] += source


def touch(*arrays: Any) -> None:
    """Reads and writes, and what it computes does not matter."""
