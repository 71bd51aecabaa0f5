"""A program whose host queries an event `queries` times without waiting for it.

The result of each query depends on the speed of the device. The faulty variant assumes that a kernel that was not done
at the first query is not done at the last one either.
"""

from __future__ import annotations

from typing import Any

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from tests.programs import set_to, world_of
from tests.worlds.case import Case


class Asks(Program[Any]):
    """`prepared` is the number of queries."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        main = rank.stream("main")
        buffer = main.alloc(1, "int32", "buffer")
        main.launch("kernel", set_to, writes=[buffer], args=(1,))
        done = main.record()
        self.seen([await done.query("query") for _ in range(prepared)])

    def seen(self, answers: list[bool]) -> None:
        """Receives the results of the queries. The healthy program accepts all of them."""


class Hasty(Asks):
    def seen(self, answers: list[bool]) -> None:
        assert answers[0] == answers[-1], "the event passed between the two queries"


def case(queries: int = 3, bug: bool = False) -> Case:
    return Case(
        name=f"event_query {queries}{' bug' * bug}",
        world=world_of(1),
        program=Hasty() if bug else Asks(),
        args=queries,
        bug="CRASH:ASSERTIONERROR" if bug else None,
        memory=True,
    )
