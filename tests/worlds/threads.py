"""Programs with host threads in one rank: threads that hand over a baton, and a wake-up that may be lost.

`baton`: a worker launches a kernel after main's kernel, once main has set the worker's flag. In the faulty variant the
worker does not wait for the flag, so its kernel may come first on the stream.

`wake`: a worker checks for work, and waits for a flag if there is none. Main gives it work and sets the flag. In the
faulty variant the worker clears the flag after the check, so it loses a wake-up between the two.
"""

from __future__ import annotations

from typing import Any

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.world import Kill
from tests.programs import set_to, world_of
from tests.worlds.case import Case


class Baton(Program[Any]):
    """`prepared` is the number of rounds of the baton."""

    threaded = True
    waits = True

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        main, mine, yours = rank.stream("main"), rank.flag("mine"), rank.flag("yours")
        buffer = main.alloc(1, "int32", "buffer")

        async def worker(rank: Rank) -> None:
            for number in range(prepared):
                if self.waits:
                    await yours.wait("yours.wait")
                    yours.clear("yours.clear")
                main.launch("worker", set_to, writes=[buffer], args=(number,))
                mine.set("mine.set")

        thread = rank.start("worker", worker)
        for _ in range(prepared):
            main.launch("main", set_to, writes=[buffer], args=(-1,))
            yours.set("yours.set")
            await mine.wait("mine.wait")
            mine.clear("mine.clear")
        assert await thread.join("join") is None
        assert (await buffer.read("read"))[0] == prepared - 1


class Hasty(Baton):
    waits = False


class Wake(Program[Any]):
    threaded = True
    late = False

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        work: list[int] = []
        flag = rank.flag("work")

        async def worker(rank: Rank) -> None:
            if not self.late:
                flag.clear("clear")
            rank.probe("look")
            if not work:
                if self.late:
                    flag.clear("clear")
                await flag.wait("wait")
            assert work

        rank.start("worker", worker)
        rank.probe("give")
        work.append(1)
        flag.set("set")


class Late(Wake):
    late = True


def baton(rounds: int = 1, bug: bool = False) -> Case:
    program = Hasty() if bug else Baton()
    return Case(
        f"threads baton {rounds}{' bug' * bug}", world_of(1), program, rounds, "CRASH:ASSERTIONERROR" if bug else None
    )


def wake(bug: bool = False) -> Case:
    program = Late() if bug else Wake()
    return Case(f"threads wake{' bug' * bug}", world_of(1), program, bug="HANG:FLAG:CLEARED" if bug else None)


def mortal() -> Case:
    """Returns a case of `wake` whose rank may be killed at any op."""
    world = world_of(1, kills=(Kill(0),))
    return Case("threads wake kill", world, Wake(), tolerated=("DEATH:RANK",))
