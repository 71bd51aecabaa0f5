"""The forwards before an engine serves: profile, warm-up and capture. Each is a collective of all workers.

Every data-parallel rank makes the same forwards, with the same sizes, in the same order (invariant I-ST-8). First comes
one large eager forward, which measures memory. Then comes one warm-up for each capture size, the largest first, then
the captures, and a sampler's warm-up on the last stage:

    profile 8; warm_up 4, 2, 1; capture 4, 2, 1; sampler 1

In each, the replicas agree, stages send hidden states, and the ranks of experts and of tensor parallelism reduce.
Attention runs only in captures, so a communicator that only it uses has to be connected before.

The sizes and the layers of these forwards are simplified; the communicators and the number of calls are those of the
engine. Sources: specification 5.11 and 9.2 (steps 15 and 17).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsim.contract.interface import Buffer, Rank
from dpsim.vllm.config import EngineConfig, RuntimeMode, Topology
from dpsim.vllm.startup.groups import WORLD, Groups, ones

SIZES = (4, 2, 1)
"""The capture sizes if the configuration has none."""


class Forwards:
    """The forwards of one worker. `config`: the configuration that its engine has sent."""

    def __init__(self, rank: Rank, groups: Groups, config: EngineConfig, topology: Topology) -> None:
        self.rank = rank
        self.groups = groups
        self.config = config
        self.topology = topology
        self.main = rank.stream("main")
        self.kept: list[Buffer] = []

    # ---- the forwards of a start

    async def profile(self) -> None:
        """Step 15: run the largest batch, without a graph."""
        self.rank.step = 15
        await self.forward(self.profile_tokens(), "profile")

    async def warm_up(self) -> None:
        """Step 17: warm up and capture each size; then the last stage warms up its sampler."""
        self.rank.step = 17
        for size in self.sizes():
            await self.forward(size, "warm_up")
        if self.captures():
            for size in self.sizes():
                await self.capture(size)
        if self.warms_sampler():
            await self.forward(1, "sampler", alone=True)

    def profile_tokens(self) -> int:
        return self.config.max_num_batched_tokens

    def sizes(self) -> tuple[int, ...]:
        """The capture sizes within the token budget, the largest first."""
        given, budget = self.config.cudagraph_capture_sizes, self.config.max_num_batched_tokens
        return tuple(sorted(SIZES if given is None else {size for size in given if size <= budget}, reverse=True))

    def captures(self) -> bool:
        """Whether the worker captures graphs."""
        mode = self.config.cudagraph_mode
        graphs = mode.has_mode(RuntimeMode.FULL) or mode.has_mode(RuntimeMode.PIECEWISE)
        return graphs and not self.config.enforce_eager

    def warms_sampler(self) -> bool:
        """Whether this worker warms up the sampler: only the last stage of a replica does."""
        return self.stage == self.stages - 1

    # ---- one forward

    @property
    def stages(self) -> int:
        return len(self.groups.own["pp"])

    @property
    def stage(self) -> int:
        return self.groups.own["pp"].index(self.rank.rank)

    async def forward(self, num_tokens: int, what: str, alone: bool = False) -> None:
        """Agree on a forward, and run it. `alone`: whether the stage runs without the stages before it."""
        agreed = await self.coordinate(num_tokens, what)
        hidden = self.main.alloc(self.share(num_tokens), "int32", f"{what}.hidden")
        pipeline = None if alone or self.stages == 1 else self.rank.device("pp")
        if pipeline is None or not self.stage:
            self.main.launch(f"{what}.embed", ones, writes=[hidden], cost=0)
        else:
            pipeline.recv(hidden, self.neighbour(-1), self.main, site=f"{what}.recv")
        rows = self.main.alloc(agreed, "int32", f"{what}.rows")
        self.layers(rows, num_tokens, what)
        if pipeline is not None and self.stage < self.stages - 1:
            pipeline.send(hidden, self.neighbour(1), self.main, site=f"{what}.send")
        await rows.read(f"{what}.done")
        hidden.free()
        rows.free()

    async def coordinate(self, num_tokens: int, what: str) -> int:
        """The rows of all replicas together, by an agreement over gloo or NCCL (specification chapter 1)."""
        if "dp" not in self.groups.own or len(self.groups.own["dp"]) == 1:
            return num_tokens
        host = self.rank.host("dp_cpu")
        table = np.zeros(host.size, np.int32)
        table[host.index] = num_tokens
        if self.config.syncs_on_host:
            table = await host.all_reduce(table, site=f"{what}.coordinate")
        else:
            mine = self.main.alloc(host.size, "int32", f"{what}.table")
            self.main.launch(f"{what}.fill", at, writes=[mine], args=(host.index, num_tokens), cost=0)
            self.rank.device("dp").all_reduce(mine, self.main, site=f"{what}.coordinate")
            table = await mine.read(f"{what}.agreed")
            mine.free()
        self.rank.decide(what, tuple(map(int, table)), "dp_cpu")
        return int(table.sum())

    def layers(self, rows: Buffer, num_tokens: int, what: str, attention: bool = False) -> None:
        """Run the layers of a stage. All calls may be captured, so none makes the host wait."""
        own, main = self.groups.own, self.main
        partial = main.alloc(num_tokens, "int32", f"{what}.partial")
        main.launch(f"{what}.layers", fill_both, writes=[partial, rows], cost=1_000)
        if attention and len(own["dcp"]) > 1:
            self.rank.device("dcp").all_reduce(partial, main, site=f"{what}.attention")
        if len(own["tp"]) > 1:
            self.rank.device("tp").all_reduce(partial, main, site=f"{what}.rows_parallel")
        if len(own.get("ep", ())) > 1:
            self.rank.device("ep").all_reduce(rows, main, site=f"{what}.experts")
            if self.config.enable_eplb and self.config.eplb_config.log_balancedness:
                load = main.alloc(1, "int32", f"{what}.load")
                main.launch(f"{what}.balancedness", ones, writes=[load], cost=0)
                self.rank.device("ep").all_reduce(load, main, site=f"{what}.log_balancedness")
                load.free()
        partial.free()

    async def capture(self, size: int) -> None:
        """Agree on a size, and capture the layers in a graph."""
        agreed = await self.coordinate(size, "capture")
        rows = self.main.alloc(agreed, "int32", "capture.rows")
        graph = self.rank.graph(f"size.{size}", "shared")
        async with graph.capture(self.main):
            self.layers(rows, size, "capture", attention=True)
        self.kept.append(rows)
        self.rank.decide("captured", size, f"{WORLD}_cpu")

    def share(self, num_tokens: int) -> int:
        """The tokens of this worker's slice, by its place among the tensor-parallel ranks."""
        parts, part = self.topology.tensor_parallel_size, self.topology.position(self.rank.rank).tp
        return max(1, (num_tokens + parts - 1 - part) // parts)

    def neighbour(self, step: int) -> int:
        return self.groups.own["pp"][self.stage + step]


def at(out: Any, index: int, value: int) -> None:
    """Kernel: write one value into a table of zeros."""
    out[:] = 0
    out[index] = value


def fill_both(one: Any, other: Any) -> None:
    """Kernel: write 1 into both buffers, as the stand-in for the layers."""
    one[:] = 1
    other[:] = 1
