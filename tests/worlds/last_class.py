"""A program that raises in exactly one class of schedules, which the test chooses.

A rank polls two mailboxes, each `polls` times, and each mailbox receives one message. The polls that find the messages
define the class. So there are (polls + 1) squared classes. The rank raises if the polls are exactly `target`. An
explorer that calls its search complete must find the bug for every target, including the class that it reaches last.
"""

from __future__ import annotations

import itertools
from typing import Any

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from tests.programs import world_of
from tests.worlds.case import Case


class OneTarget(Program[Any]):
    """`prepared` is (polls, target). `target` has for each mailbox the number of the poll that finds the message, or
    `polls` for none.
    """

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
    """Returns one target for each class."""
    return list(itertools.product(range(polls + 1), range(polls + 1)))


def case(target: tuple[int, int] | None, polls: int = 2) -> Case:
    return Case(
        name=f"last_class {polls} polls {'healthy' if target is None else f'target {target}'}",
        world=world_of(3),
        program=OneTarget(),
        args=(polls, target),
        bug=None if target is None else "CRASH:ASSERTIONERROR",
    )
