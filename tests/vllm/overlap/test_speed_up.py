"""Tests the speed-up by overlap: two microbatches in eight layers, where communication takes as long as computation.

Expected times by hand. In each of L layers a microbatch has attention (a), dispatch (d), an expert (e) and combine (k),
each of duration t. Without overlap two microbatches take 2 * 4 * L * t = 64 t.

With the baton, the streams run like this:

    compute  a0 a1 e0 e1 a0 a1 e0 e1 ...
    comm        d0 d1 k0 k1 d0 d1 k0 k1 ...

d0 starts after a0 and overlaps a1. e0 starts after d0 and overlaps d1. k0 starts after e0 and overlaps e1. The next
layer's a0 starts after k0 and overlaps k1. The compute stream never waits, and only the last k1 overlaps nothing. The
total is 4 * L * t + t = 33 t, and the speed-up 64 / 33 = 1.94.

In mutant M-BT-4 a microbatch records the end of its computation after the yield. So d0 waits for a1. The thread u0
enqueues e0 when it continues, so e0 starts after d0. d1 waits for all kernels that are enqueued by then, including e0,
and e1 starts after d1. If receives do not yield, nothing overlaps: 64 t and a speed-up of 1.00. If a combine yields
once more before its receive (spec chapter 4.4), u1 records before u0 enqueues its wait for k0. So k1 starts directly
after k0, and the next layer's a0, which starts after k0, overlaps k1. Each layer but the last saves one t. The total is
(7 * L + 1) t = 57 t, and the speed-up 64 / 57 = 1.12.
"""

from __future__ import annotations

import pytest

from dpsim.contract.interface import Buffer, Rank, Stream
from dpsim.contract.program import Program
from dpsim.contract.world import World
from dpsim.sim.backend import SimBackend
from dpsim.sim.graph.costs import REFERENCE
from dpsim.vllm.config import EngineConfig, RuntimeMode, Topology
from dpsim.vllm.data_parallel.batch import Source000, StepPlan
from dpsim.vllm.data_parallel.flow import Flow033
from dpsim.vllm.data_parallel.forward import Execution
from dpsim.vllm.data_parallel.timeline import Batch, Timeline
from dpsim.vllm.graphs.dispatcher import Descriptor, Dispatcher033
from dpsim.vllm.model.kernels import fill
from dpsim.vllm.overlap.all_to_all import HighThroughput
from dpsim.vllm.overlap.baton import UBatchContext
from dpsim.vllm.overlap.forms import Forward033, OverlapStep
from dpsim.vllm.overlap.library import Library
from dpsim.vllm.overlap.routing import Route
from dpsim.vllm.params.arguments import Request
from dpsim.vllm.params.communicators import communicators

LAYERS = 8
T = REFERENCE.on_device(2, 0)
"""The duration of an all-to-all of two ranks with a few bytes."""
AFTERWARDS = REFERENCE.kernel + REFERENCE.read
"""The duration of copying the rows to the host and reading them."""


class WithoutWaiting(Library):
    """A library whose first use on a stream does not synchronize, so that it costs no time."""

    async def workspace(self, stream: Stream) -> Buffer:
        if (self.rank.thread, stream.name) not in self.workspaces:
            scratch = self.workspaces[self.rank.thread, stream.name] = stream.alloc(1, "int32", "library.workspace")
            stream.launch("library.clear", fill, writes=[scratch], args=(0,), cost=0)
        return self.workspaces[self.rank.thread, stream.name]


class Eight(Forward033):
    """A forward of eight layers, in which each computation takes as long as an all-to-all."""

    layers = LAYERS
    project_ns, attention_ns, expert_ns = 1000, T - 1000, T
    library_of = WithoutWaiting

    async def end(self, witness: object) -> None:
        pass


class RecordsLate(UBatchContext):
    """Mutant M-BT-4: records the end of the computation after the yield."""

    def signal_compute_done(self) -> None:
        pass

    def wait_compute_done(self) -> None:
        super().signal_compute_done()
        super().wait_compute_done()


class ReceivesAtOnce(HighThroughput):
    """The compute stream waits for a combine as soon as the combine is enqueued, as it does for a dispatch."""

    async def receive(self, route: Route, combined: Buffer, hidden: Buffer) -> None:
        self.dbo.switch_to_comm()
        self.unpermuted(route, combined, hidden)
        self.drop(combined, self.dbo.stream)
        self.dbo.switch_to_compute_sync()


class EightAtOnce(Eight):
    """Eight layers whose receives do not yield."""

    all_to_all = ReceivesAtOnce


class EightLate(Eight):
    """Mutant M-BT-4 in eight layers, whose combines yield once more before their receive."""

    ubatch_context = RecordsLate


class EightLateAtOnce(EightAtOnce):
    """Mutant M-BT-4 in eight layers whose receives do not yield."""

    ubatch_context = RecordsLate


class Agreed(OverlapStep):
    """Skips the agreement, so that the time is that of the forward only."""

    async def coordinate(self, batch: Batch) -> Execution:
        tokens = batch.num_tokens
        plan = StepPlan(True, (tokens, tokens), RuntimeMode.NONE)
        return Execution(plan, RuntimeMode.NONE, tokens, batch, Descriptor(tokens))


class Forwards(Program[type[Forward033]]):
    """Runs one split step of two ranks with the given forward."""

    threaded = True

    async def run(self, rank: Rank, prepared: type[Forward033]) -> None:
        config = EngineConfig(
            enable_dbo=True, dbo_decode_token_threshold=2, dbo_prefill_token_threshold=2, enforce_eager=True
        )
        timeline = Timeline([Request(0, 4, 1)] * 2, 2, config, 1)
        await Agreed(rank, rank.rank, Flow033(config, Source000(), Dispatcher033), captured=prepared).run(timeline)


def elapsed(forward: type[Forward033]) -> float:
    """Returns the device time of the forward, in multiples of t."""
    world = World(2, communicators(Topology(data_parallel_size=2)))
    run = SimBackend().run_program(world, Forwards(), forward)
    assert run.finished, [journal[-1] for journal in run.journals]
    return (run.elapsed_ns - AFTERWARDS) / T


SERIAL = 8 * LAYERS


@pytest.mark.parametrize(
    ("forward", "by_hand"),
    [
        (Eight, 4 * LAYERS + 1),
        (EightAtOnce, 4 * LAYERS + 1),
        (EightLate, 7 * LAYERS + 1),
        (EightLateAtOnce, SERIAL),
    ],
)
def test_the_timed_steps_last_as_computed_by_hand(forward: type[Forward033], by_hand: int) -> None:
    assert elapsed(forward) == pytest.approx(by_hand, rel=0.05)


def test_overlap_speeds_up_a_step_as_computed() -> None:
    assert SERIAL / elapsed(Eight) == pytest.approx(64 / 33, rel=0.05)
    assert SERIAL / elapsed(EightLateAtOnce) == pytest.approx(1.0, rel=0.05)
