"""The smallest worlds in which a baton can be lost: one rank, whose microbatches only pass the baton round.

The baton is the right to run: of a rank's microbatch threads, only the one with the baton runs.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.subject import Subject
from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.world import World
from dpsim.vllm.capture.wrapper import ForwardContext
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.graphs.dispatcher import Descriptor
from dpsim.vllm.overlap.barrier import ReadyBarrier
from dpsim.vllm.overlap.baton import UBatchContext, ring
from dpsim.vllm.overlap.state import ForwardState, OverlapContext


class Ring(NamedTuple):
    """A world of microbatches that only yield. `yields`: how often each microbatch yields."""

    yields: tuple[int, ...]
    context: type[UBatchContext] = UBatchContext
    barrier: type[ReadyBarrier] = ReadyBarrier
    steps: int = 1


class Watched(UBatchContext):
    """Sets a flag while it runs, so that an exploration finds each order in which two microbatches run at once
    (I-BT-1).
    """

    async def take(self) -> None:
        await super().take()
        flag = self.rank.flag("somebody.runs")
        assert not await flag.query("watch.alone"), f"microbatch {self.id} runs beside another one"
        flag.set("watch.runs")

    def let_go(self) -> None:
        self.rank.flag("somebody.runs").clear("watch.stops")
        super().let_go()


class Baton(Program[Ring]):
    """Runs the microbatches of a `Ring`: each only yields, as often as the ring prescribes."""

    threaded = True
    ordered_by_flags = True

    async def run(self, rank: Rank, prepared: Ring) -> None:
        state, barrier, number = ForwardState(), prepared.barrier(rank), len(prepared.yields)
        main, comm = rank.stream("main"), rank.stream("comm")
        scratch = main.alloc(1, "int32", "metadata")
        for rank.step in range(prepared.steps):
            state.begin(number)
            barrier.begin(number)
            contexts = []
            for one in range(number):
                told = ForwardContext(RuntimeMode.NONE, Descriptor(1), main, 1, (1,))
                forward = OverlapContext(told, (scratch, scratch, scratch), one)
                contexts.append(prepared.context(one, rank, state, barrier, forward, comm))
            ring(contexts)
            threads = [rank.start(f"u{one.id}", self.ubatch(one, prepared.yields[one.id])) for one in contexts]
            await barrier.main()
            contexts[0].wait_event.set("baton.first")
            errors = [await thread.join("join") for thread in threads]
            state.end()
            assert errors == [None] * number, errors

    def ubatch(self, context: UBatchContext, yields: int) -> Callable[[Rank], Coroutine[Any, Any, None]]:
        async def run(rank: Rank) -> None:
            try:
                await context.enter()
                for _ in range(yields):
                    await context.cpu_yield()
            finally:
                context.exit()

        return run


def explored(ring: Ring, schedules: int = 2000) -> Explored:
    return explore_subject(Subject(World(1, ()), Baton(), ring), "dpor", schedules=schedules)


def seen(ring: Ring) -> tuple[str, int]:
    """Explores a world. Returns the verdict, or the class of the finding, and the number of schedules."""
    found = explored(ring)
    return found.verdict if found.failure is None else found.failure.problem.klass, found.exploration.runs


__all__ = ["Baton", "Ring", "Watched", "explored", "seen"]
