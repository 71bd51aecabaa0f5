"""A host that asks whether its device has come so far, and does not wait.

It asks `queries` times. Whether an answer is yes or no depends on how fast the device is. The bug: it takes for granted
that a kernel which was not done when it first asked is not done when it last asks either.
"""

from __future__ import annotations

from typing import Any

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from tests.programs import set_to, world_of
from tests.worlds.case import Case


class Asks(Program[Any]):
    """`prepared`: queries."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        main = rank.stream("main")
        buffer = main.alloc(1, "int32", "buffer")
        main.launch("kernel", set_to, writes=[buffer], args=(1,))
        done = main.record()
        self.seen([await done.query("query") for _ in range(prepared)])

    def seen(self, answers: list[bool]) -> None:
        """What the host makes of the answers: nothing, whatever they are."""


class Hasty(Asks):
    def seen(self, answers: list[bool]) -> None:
        assert answers[0] == answers[-1], "it has ended meanwhile"


def case(queries: int = 3, bug: bool = False) -> Case:
    return Case(
        name=f"event_query {queries}{' bug' * bug}",
        world=world_of(1),
        program=Hasty() if bug else Asks(),
        args=queries,
        bug="CRASH:ASSERTIONERROR" if bug else None,
        memory=True,
    )
