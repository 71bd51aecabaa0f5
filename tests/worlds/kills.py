"""Programs of which one rank may die at any op.

The death of the rank is no bug, and neither are peers that then hang in a collective. The planted bug is a handshake
between two collectives: after one step the mortal rank must send a message for which its peer waits. The bug shows only
if the rank dies after that collective, and before its host continues.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.world import Kill, World
from tests.programs import set_to, world_of
from tests.worlds.case import Case
from tests.worlds.pipeline import Pipeline, Scope, pipeline_world

VICTIM = 1
TOLERATED = ("DEATH", "HANG:COLLECTIVE:DEAD_RANK")


class Steps(Program[Any]):
    """`prepared` is the number of steps and the domain of the collective that all ranks call in every step."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        steps, domain = prepared
        for step in range(steps):
            rank.step = step
            if domain == "host":
                total = await rank.host("dp").all_reduce(np.array([step], np.int32), site="dp.step")
            else:
                main = rank.stream("main")
                buffer = main.alloc(1, "int32", "table")
                main.launch("fill", set_to, writes=[buffer], args=(step,))
                rank.device("dp").all_reduce(buffer, main, site="dp.step")
                total = await buffer.read("read")
                buffer.free()
            rank.decide("total", int(total[0]), "dp")
            await self.after(rank, step)

    async def after(self, rank: Rank, step: int) -> None:
        """Runs between two steps. The healthy program does nothing here."""


class Handshake(Steps):
    AT = 1

    async def after(self, rank: Rank, step: int) -> None:
        if step == self.AT and rank.rank == VICTIM:
            rank.send(0, "done", step, "handshake")
        elif step == self.AT and rank.rank == 0:
            await rank.mailbox("done").get("handshake.wait")


def _mortal(world: World) -> World:
    return World(world.size, world.communicators, kills=(Kill(VICTIM, 0),))


def case(ranks: int = 2, steps: int = 4, domain: str = "host", bug: bool = False) -> Case:
    return Case(
        name=f"kill {domain} {ranks}x{steps}{' bug' * bug}",
        world=_mortal(world_of(ranks, ["dp"]) if domain == "host" else world_of(ranks, devices=["dp"])),
        program=Handshake() if bug else Steps(),
        args=(steps, domain),
        bug="HANG:MAILBOX:DEAD_RANK" if bug else None,
        tolerated=TOLERATED,
    )


def pipeline(scope: Scope) -> Case:
    """Returns a case with a pipeline whose last stage may die."""
    return Case(
        name=f"kill pipeline {scope.stages}x{scope.steps}",
        world=_mortal(pipeline_world(scope.stages)),
        program=Pipeline(),
        args=scope,
        tolerated=TOLERATED,
    )
