"""Programs whose captured graphs run differently under different schedules.

*turns*: one graph writes a buffer and another graph reads it, each on its own stream. A poll decides which graph the
rank replays first. In the faulty variant the reader's stream does not wait for the writer's replay.

*recv*: two pipeline stages have their transfer in a graph, and replay it for each batch that the first stage announces.
In the faulty variant the second stage polls for the message to stop, as the first stage does. So the stages may decide
differently.

*kill*: two ranks replay a graph with an all_reduce in each step, and one of them may die, before its capture or after
any replay. The bug is the handshake after a step, as in `kills`.
"""

from __future__ import annotations

from typing import Any

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.world import CommunicatorSpec, Kill, World
from tests.programs import add, copy, set_to, world_of
from tests.worlds.case import Case
from tests.worlds.kills import TOLERATED, VICTIM


class Turns(Program[Any]):
    """`prepared` is the number of ranks and of steps. One further rank sends the turns."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        ranks, steps = prepared
        if rank.rank == ranks:
            for to in range(ranks):
                rank.send(to, "turn", "reader first", "turn")
            return
        left, right = rank.stream("left"), rank.stream("right")
        x, y = left.alloc(4, "int32", "x"), right.alloc(4, "int32", "y")
        left.launch("begin", set_to, writes=[x], args=(0,))
        one = left.alloc(4, "int32", "one")
        left.launch("one", set_to, writes=[one], args=(1,))
        writer, reader = rank.graph("writer"), rank.graph("reader")
        async with writer.capture(left):
            left.launch("write", add, reads=[one], writes=[x])
        async with reader.capture(right):
            right.launch("read", copy, reads=[x], writes=[y])
        for step in range(steps):
            rank.step = step
            turn = await rank.mailbox("turn").poll("poll")
            for graph, stream, other in [(writer, left, right), (reader, right, left)][:: -1 if turn else 1]:
                if self.waits():
                    stream.wait_stream(other)
                graph.replay(stream, f"{graph.name}.go")
            await y.read("out")

    def waits(self) -> bool:
        """Returns whether the stream of a replay waits for the other stream."""
        return True


class NoWait(Turns):
    def waits(self) -> bool:
        return False


class Stages(Program[Any]):
    """`prepared` is the number of batches. The ranks are the first stage, the second stage, and one that sends both a
    stop.
    """

    async def run(self, rank: Rank, prepared: Any) -> None:
        if rank.rank == 2:
            for stage in range(2):
                rank.send(stage, "stop", True, "stop")
            return
        main, pp = rank.stream("main"), rank.device("pp")
        x, y = main.alloc(2, "int32", "x"), main.alloc(2, "int32", "y")
        graph = rank.graph("batch")
        async with graph.capture(main):
            if rank.rank == 0:
                pp.send(x, 1, main, site="hidden")
            else:
                pp.recv(x, 0, main, site="hidden")
                main.launch("layer", copy, reads=[x], writes=[y])
        for batch in range(prepared):
            rank.step = batch
            if await self.stops(rank):
                return
            if rank.rank == 0:
                main.launch("layer", set_to, writes=[x], args=(batch,))
            graph.replay(main, "batch.go")
            if rank.rank == 1:
                assert (await y.read("out")).tolist() == [batch, batch]

    async def stops(self, rank: Rank) -> bool:
        """Returns whether to stop before this batch. The first stage polls for the stop message and sends its result to
        the second.
        """
        if rank.rank == 1:
            return bool(await rank.mailbox("plan").get("plan"))
        stop = await rank.mailbox("stop").poll("look") is not None
        rank.send(1, "plan", stop, "plan")
        return stop


class OwnLook(Stages):
    async def stops(self, rank: Rank) -> bool:
        return await rank.mailbox("stop").poll("look") is not None


class Replays(Program[Any]):
    """`prepared` is the number of steps."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        main, graph = rank.stream("main"), rank.graph("step")
        x = main.alloc(1, "int32", "x")
        async with graph.capture(main):
            main.launch("fill", set_to, writes=[x], args=(1,))
            rank.device("dp").all_reduce(x, main, site="dp.step")
        for step in range(prepared):
            rank.step = step
            graph.replay(main, "step.go")
            total = await x.read("out")
            rank.decide("total", int(total[0]), "dp")
            await self.after(rank, step)

    async def after(self, rank: Rank, step: int) -> None:
        """Runs between two steps. The healthy program does nothing here."""


class Handshake(Replays):
    async def after(self, rank: Rank, step: int) -> None:
        if step == 0 and rank.rank == VICTIM:
            rank.send(0, "done", step, "handshake")
        elif step == 0 and rank.rank == 0:
            await rank.mailbox("done").get("handshake.wait")


def turns(ranks: int = 1, steps: int = 2, bug: bool = False, memory: bool = False) -> Case:
    return Case(
        name=f"graph turns {ranks}x{steps}{' memory' * memory}{' bug' * bug}",
        world=world_of(ranks + 1),
        program=NoWait() if bug else Turns(),
        args=(ranks, steps),
        bug="RACE:BUFFER" if bug else None,
        always=bug,
        memory=memory,
    )


def recv(batches: int = 2, bug: bool = False) -> Case:
    return Case(
        name=f"graph recv {batches}{' bug' * bug}",
        world=World(3, (CommunicatorSpec("pp", "pp", "device", (0, 1)),)),
        program=OwnLook() if bug else Stages(),
        args=batches,
        bug="HANG:P2P" if bug else None,
    )


def mortal(steps: int = 2, bug: bool = False) -> Case:
    world = world_of(2, devices=["dp"])
    return Case(
        name=f"graph kill 2x{steps}{' bug' * bug}",
        world=World(world.size, world.communicators, kills=(Kill(VICTIM, 0),)),
        program=Handshake() if bug else Replays(),
        args=steps,
        bug="HANG:MAILBOX:DEAD_RANK" if bug else None,
        tolerated=TOLERATED,
    )
