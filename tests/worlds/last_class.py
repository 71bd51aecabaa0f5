"""A bug in exactly one of many classes, whichever one likes.

A rank looks into two boxes in turn, `polls` times into each; to each box comes one message. What it found, and when,
tells the classes apart: (polls + 1) squared of them. It raises if it found exactly `target`. An explorer that has
searched the whole world must have found the bug for every target, so also for the one that it reaches last.
"""

from __future__ import annotations

import itertools
from typing import Any

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from tests.programs import world_of
from tests.worlds.case import Case


class OneTarget(Program[Any]):
    """`prepared`: (polls, target): for each box the number of the poll that finds the message; `polls` for never."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        polls, target = prepared
        if rank.rank:
            rank.send(0, f"box {rank.rank}", rank.rank, "send")
            return
        found = [polls, polls]
        for number in range(polls):
            for box in (1, 2):
                if await rank.mailbox(f"box {box}").poll(f"poll.{box}"):
                    found[box - 1] = number
        assert tuple(found) != target, "the one class"


def targets(polls: int = 2) -> list[tuple[int, int]]:
    """One for each class."""
    return list(itertools.product(range(polls + 1), range(polls + 1)))


def case(target: tuple[int, int] | None, polls: int = 2) -> Case:
    return Case(
        name=f"last_class {polls} polls {'healthy' if target is None else f'target {target}'}",
        world=world_of(3),
        program=OneTarget(),
        args=(polls, target),
        bug=None if target is None else "CRASH:ASSERTIONERROR",
    )
