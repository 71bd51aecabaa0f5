"""A program with two microbatches on two streams. The first computes and records an event; the second waits for the
event and sends.

If a stream waits for an event that no stream has recorded, the wait has no effect, as on CUDA. A rank has one host
thread here. In each layer a poll decides which microbatch runs first. In the faulty variant the second microbatch does
not check whether the first has recorded the event. Then its stream reads memory that is unwritten, or that another
stream is writing.
"""

from __future__ import annotations

from typing import Any

from dpsim.contract.interface import Event, Rank
from dpsim.contract.program import Program
from tests.programs import copy, set_to, world_of
from tests.worlds.case import Case


class Overlap(Program[Any]):
    """`prepared` is the number of ranks and of layers. One further rank sends the turns."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        ranks, layers = prepared
        if rank.rank == ranks:
            for to in range(ranks):
                rank.send(to, "turn", "second first", "turn")
            return
        compute, comm = rank.stream("compute"), rank.stream("comm")
        for layer in range(layers):
            rank.step = layer
            hidden, sent = compute.alloc(4, "int32", "hidden"), comm.alloc(4, "int32", "sent")
            turn = await rank.mailbox("turn").poll("poll")
            recorded: Event | None = None
            for microbatch in ("second", "first") if turn else ("first", "second"):
                if recorded is None and (microbatch == "first" or self.yields()):
                    compute.launch("compute", set_to, writes=[hidden], args=(layer + 1,))
                    recorded = compute.record()
                if microbatch == "second":
                    if recorded is not None:
                        comm.wait(recorded)
                    comm.launch("send", copy, reads=[hidden], writes=[sent])
            assert int((await sent.read("read")).sum()) == 4 * (layer + 1)

    def yields(self) -> bool:
        """Returns whether the second microbatch lets the first compute if the first has not recorded its event."""
        return True


class NoYield(Overlap):
    def yields(self) -> bool:
        return False


def case(ranks: int = 1, layers: int = 2, bug: bool = False, memory: bool = False) -> Case:
    return Case(
        name=f"dbo_event_order {ranks}x{layers}{' memory' * memory}{' bug' * bug}",
        world=world_of(ranks + 1),
        program=NoYield() if bug else Overlap(),
        args=(ranks, layers),
        bug="RACE:BUFFER" if bug else None,
        memory=memory,
    )
