"""Measures untimed runs: ops per second with a strategy, and the cost of a tiny run.

An explorer runs thousands of small schedules, so two figures matter. One is the rate at which the machine chooses and
fires ops, compared with SimPy's bare loop of time-outs in the same turn. The other is the time of a run that does
almost nothing, from its set-up to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import simpy

from benchmarks.measure import Spread, ratios, spread, turns
from benchmarks.program import COSTS, PipelinedStep, world
from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.schedule import Candidate, Strategy
from dpsim.contract.world import CommunicatorSpec, Run, World
from dpsim.sim.backend import SimBackend
from dpsim.sim.graph.op import Op

PROCESSES, TIMEOUTS = 64, 1_000
DP, PP, STEPS = 4, 2, 50
TINY_RANKS, TINY_ROUNDS, TINY_RUNS = 4, 4, 50


class First(Strategy):
    """A strategy that always chooses the first candidate."""

    def pick(self, candidates: Sequence[Candidate]) -> int:
        return 0

    def draw(self, label: str, options: Sequence[str]) -> int:
        return 0


def time_outs() -> None:
    """Runs SimPy's bare loop: processes that only wait."""
    env = simpy.Environment()

    def tick() -> Any:
        for _ in range(TIMEOUTS):
            yield env.timeout(1)

    for _ in range(PROCESSES):
        env.process(tick())
    env.run()


def steps() -> Run:
    """Runs the benchmark's step untimed, as an explorer does."""
    backend = SimBackend(COSTS, choose=First(), memory=False)
    return backend.run_program(world(DP, PP), PipelinedStep(DP, PP, STEPS), None)


def ops_made(work: Callable[[], Any]) -> int:
    """Returns how many ops `work` creates. If its run finishes, all of them have fired."""
    made, plain = [0], Op.__init__

    def counted(*args: Any, **kwargs: Any) -> None:
        made[0] += 1
        plain(*args, **kwargs)

    Op.__init__ = counted  # type: ignore[method-assign]
    try:
        work()
    finally:
        Op.__init__ = plain  # type: ignore[method-assign]
    return made[0]


def ops_of_steps() -> int:
    def finished() -> None:
        assert steps().finished

    return ops_made(finished)


class Tiny(Program[None]):
    """A program with a few rounds of an agreement and a reduction: about 40 records per rank, as in a typical
    exploration.
    """

    async def run(self, rank: Rank, prepared: Any) -> None:
        host, device, main = rank.host("h"), rank.device("d"), rank.stream("main")
        buffer = main.alloc(4, "int32", "buffer")
        for step in range(TINY_ROUNDS):
            rank.step = step
            table = await host.all_reduce(np.full(1, rank.rank, np.int32), site="agree")
            main.launch("fill", fill, writes=[buffer], args=(int(table[0]),))
            device.all_reduce(buffer, main, site="reduce")
            rank.send((rank.rank + 1) % TINY_RANKS, "ring", step, "pass")
            await rank.mailbox("ring").get("take")
            rank.decide("sum", int((await buffer.read("read")).sum()), "h")


def fill(buffer: Any, value: int) -> None:
    buffer[:] = value


def tiny() -> None:
    """Makes `TINY_RUNS` tiny runs, each on a new backend."""
    everyone = tuple(range(TINY_RANKS))
    told = World(
        TINY_RANKS, (CommunicatorSpec("h", "h", "host", everyone), CommunicatorSpec("d", "d", "device", everyone))
    )
    for _ in range(TINY_RUNS):
        SimBackend(choose=First(), memory=False).run_program(told, Tiny(), None)


class Untimed(NamedTuple):
    """The results. `ops_per_second`: the median. `of_simpy`: the rate divided by SimPy's time-outs per second.
    `tiny_us`: the microseconds of a tiny run.
    """

    ops_per_second: float
    simpy_per_second: float
    of_simpy: Spread
    tiny_us: Spread


def measure(repetitions: int) -> Untimed:
    ops, time_out_count = ops_of_steps(), PROCESSES * TIMEOUTS
    took = turns({"simpy": time_outs, "steps": steps, "tiny": tiny}, repetitions)
    share = [ops / time_out_count * ratio for ratio in ratios(took["simpy"], took["steps"])]
    return Untimed(
        ops_per_second=ops / spread(took["steps"]).median,
        simpy_per_second=time_out_count / spread(took["simpy"]).median,
        of_simpy=spread(share),
        tiny_us=spread([once / TINY_RUNS * 1e6 for once in took["tiny"]]),
    )
