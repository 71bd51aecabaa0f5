"""Engines that sleep until a front end wakes them, agree in each step whether to continue, and may be paused.

A wave begins with a wake message, and ends in the same step on all engines. Each wake message names its wave. An engine
must drop the message of a finished wave. In the faulty variant it does not. So the message wakes one engine only, which
then waits for the others in a collective.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from tests.programs import world_of
from tests.worlds.case import Case


class Engines(Program[Any]):
    """`prepared` is (ranks, steps, duplicates). The ranks after the engines are the front end and the admin."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        ranks, steps, duplicates = prepared
        if rank.rank < ranks:
            await self.engine(rank, steps)
        elif rank.rank == ranks:
            for _ in range(1 + duplicates):
                for to in range(ranks):
                    rank.send(to, "in", ("wake", 0), "front.wake")
        else:
            rank.send(0, "in", ("pause", 0), "admin.pause")

    async def engine(self, rank: Rank, steps: int) -> None:
        box = rank.mailbox("in")
        wave, step, running, pause = 0, 0, False, 0
        while True:
            rank.step = 100 * wave + step
            message = await (box.poll("engine.poll") if running else box.get("engine.idle", idle=True))
            if message is not None:
                kind, named = message  # type: ignore[misc,str-unpack]
                if kind == "pause":
                    pause = 1
                elif not running and self.wakes(named, wave):
                    running, step = True, 0
            if running:
                votes = await rank.host("dp").all_reduce(np.array([pause], np.int32), site="dp.go_on")
                step += 1
                if votes[0] or step >= steps:
                    rank.decide("wave", (wave, step), "dp")
                    wave, step, running, pause = wave + 1, 0, False, 0

    def wakes(self, named: Any, wave: int) -> bool:
        """Returns whether a wake message for wave `named` wakes an engine whose next wave is `wave`."""
        return bool(named == wave)


class StaleWake(Engines):
    def wakes(self, named: Any, wave: int) -> bool:
        return True


def case(ranks: int = 2, steps: int = 1, duplicates: int = 1, bug: bool = False) -> Case:
    extra = f" dup {duplicates}" if duplicates != 1 else ""
    return Case(
        name=f"wake_pause {ranks}x{steps}{extra}{' bug' * bug}",
        world=world_of(ranks + 2, hosts=["dp"], among=ranks),
        program=StaleWake() if bug else Engines(),
        args=(ranks, steps, duplicates),
        bug="HANG:COLLECTIVE:*" if bug else None,
    )
