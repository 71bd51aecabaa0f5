"""Small random programs whose streams wait for a flag that one or two host threads set and clear.

Each thread makes a few calls in any order. It makes a stream wait for the flag, and launches a kernel behind the wait.
It queries the end of the kernel, or sets or clears the flag. In the end the main thread waits for all streams. So the
rank hangs if a stream never ends.

    one_host(seed=7)       two_threads(seed=7)
"""

from __future__ import annotations

import random
from typing import Any

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from tests.programs import set_to, world_of
from tests.worlds.case import Case

CALLS = ("hold", "hold", "set", "set", "clear", "ask")


class OneHost(Program[Any]):
    """`prepared` has the calls of the main thread, each with a stream."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        await calls(rank, prepared)


class TwoThreads(Program[Any]):
    """`prepared` has the calls of the main thread and those of a second thread, each with a stream."""

    threaded = True

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        own, others = prepared

        async def other(rank: Rank) -> None:
            await calls(rank, others)

        thread = rank.start("u1", other)
        await calls(rank, own)
        await thread.join("join")


async def calls(rank: Rank, prepared: Any) -> None:
    flag = rank.flag("f")
    for what, name in prepared:
        stream = rank.stream(name)
        if what == "hold":
            stream.wait_flag(flag, "hold")
            stream.launch("kernel", set_to, writes=[stream.alloc(1, "int32", "x")], args=(1,))
        elif what == "set":
            flag.set("set")
        elif what == "clear":
            flag.clear("clear")
        else:
            await stream.record().query("ask")


def drawn(draw: random.Random, number: int) -> Any:
    return tuple((draw.choice(CALLS), draw.choice("st")) for _ in range(number))


def one_host(seed: int) -> Case:
    return Case(f"stream flags {seed}", world_of(1), OneHost(), drawn(random.Random(seed), 7))


def two_threads(seed: int) -> Case:
    draw = random.Random(seed)
    return Case(f"stream flags of threads {seed}", world_of(1), TwoThreads(), (drawn(draw, 1), drawn(draw, 2)))
