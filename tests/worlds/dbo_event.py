"""Two microbatches on two streams: one computes and records an event, the other waits for it and sends.

Waiting for an event that was not recorded yet does nothing, as on CUDA. Here a rank has one host thread, so a message
that it may find or not decides which microbatch goes first in each layer. The bug: the second microbatch does not look
whether the first has recorded. Then its stream reads unwritten memory, or memory that is just being written.
"""

from __future__ import annotations

from typing import Any

from dpsim.contract.interface import Event, Rank
from dpsim.contract.program import Program
from tests.programs import copy, set_to, world_of
from tests.worlds.case import Case


class Overlap(Program[Any]):
    """`prepared`: (ranks, layers). The rank after the last hands out turns."""

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
        """Whether the second microbatch lets the first compute where that has not recorded its event."""
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
