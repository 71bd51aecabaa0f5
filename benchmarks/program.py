"""The benchmark's step as a dpsim program (`dpsim.contract.interface`), and its world.

The host waits, streams order the work, and ops last exactly as in the baseline, so the program ends at the same
simulated time. Beyond the baseline, every call has an address and a record, kernels compute numbers in memory, and
collectives move them. The program allocates buffers once and uses them in every step, as captured graphs require.

>>> run = simulate(dp=8, pp=2, steps=50)
>>> run.elapsed_ns, run.finished
(11127, True)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.baseline import AGREE_NS, ATTENTION_NS, EXCHANGE_NS, EXPERTS_NS, host_ns
from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.world import CommunicatorSpec, Run, World
from dpsim.sim.backend import SimBackend
from dpsim.sim.graph.costs import Costs

COSTS = Costs(*[0] * len(Costs._fields))._replace(
    host_collective=AGREE_NS, device_collective=EXCHANGE_NS, eager_bytes=1 << 20
)
"""The costs of the baseline, in which only work and collectives take time."""

LOGITS = 4
"""How many elements the host reads, for any size of the group."""


def attention(hidden: Any, source: Any, step: int) -> None:
    source[:] = hidden
    source += step


def experts(output: Any, hidden: Any) -> None:
    hidden += output


class PipelinedStep(Program[None]):
    """`dp` replicas (2 or more) of `pp` stages. The rank is replica * pp + stage.

    A microbatch has an element for each replica.
    """

    def __init__(self, dp: int, pp: int, steps: int) -> None:
        self.dp, self.pp, self.count = dp, pp, steps

    async def run(self, rank: Rank, prepared: Any) -> None:
        replica, stage = divmod(rank.rank, self.pp)
        last = self.pp - 1
        agree, experts_of, stages = rank.host("dp_cpu"), rank.device("ep"), rank.device("pp")
        compute, comm, tokens = rank.stream("compute"), rank.stream("comm"), rank.mailbox("tokens")
        hidden = compute.alloc(2 * self.dp, "int32", "hidden")
        halves = [hidden.view(0, self.dp), hidden.view(self.dp, 2 * self.dp)]
        sources = [compute.alloc(self.dp, "int32", "source") for _ in halves]
        outputs = [comm.alloc(self.dp, "int32", "output") for _ in halves]
        logits = hidden.view(0, LOGITS)
        compute.launch("zero", zero, writes=[hidden], cost=0)
        for step in range(self.count):
            rank.step = step
            await rank.sleep(host_ns(replica, step), "host.work")
            await agree.all_reduce(np.array([(replica + step) % 5], np.int32), op="max", site="dp.agree")
            if stage > 0:
                stages.recv(hidden, rank.rank - 1, compute, site="hidden.recv")
            exchanged = []
            for half, source, output in zip(halves, sources, outputs, strict=True):
                compute.launch("attention", attention, reads=[half], writes=[source], args=(step,), cost=ATTENTION_NS)
                comm.wait_stream(compute)
                experts_of.all_to_all(output, source, comm, site="experts.exchange")
                exchanged.append(comm.record())
            for event, half, output in zip(exchanged, halves, outputs, strict=True):
                compute.wait(event)
                compute.launch("experts", experts, reads=[output], writes=[half], cost=EXPERTS_NS)
            await logits.read("logits")
            if stage < last:
                stages.send(hidden, rank.rank + 1, compute, site="hidden.send")
                if step >= 1:
                    await tokens.get("token.get")
            else:
                for other in range(last):
                    rank.send(rank.rank - last + other, "tokens", step, "token.return")


def zero(buffer: Any) -> None:
    buffer[:] = 0


def world(dp: int, pp: int) -> World:
    """Returns the world: two groups for the replicas of each stage (host and experts), and one for the stages
    of each replica.
    """
    specs = []
    for stage in range(pp):
        peers = tuple(replica * pp + stage for replica in range(dp))
        specs += [
            CommunicatorSpec("dp_cpu", f"dp_cpu.{stage}", "host", peers),
            CommunicatorSpec("ep", f"ep.{stage}", "device", peers),
        ]
    for replica in range(dp):
        specs.append(CommunicatorSpec("pp", f"pp.{replica}", "device", tuple(range(replica * pp, (replica + 1) * pp))))
    return World(dp * pp, tuple(specs))


def simulate(dp: int, pp: int, steps: int) -> Run:
    """Runs the program on the simulated machine, with full journals."""
    return SimBackend(COSTS).run_program(world(dp, pp), PipelinedStep(dp, pp, steps), None)
