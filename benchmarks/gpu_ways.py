"""The ways that `benchmarks.gpu` compares: the same work with dpsim, and in plain torch on the same process groups.

One worker runs both ways in turn, because the times of two processes of one build may differ by half.

    coordination   an eager step: five torch ops fill a table, the ranks sum it, and the host reads it
    launches       20 kernels of one torch op each, and a read
    host sum       an all_reduce of host memory over gloo
    broadcast      from one stream to another and back, with a broadcast on the other
    replay         a graph of eight layers, each a kernel and a sum over the ranks, and a wait
    replays        twenty such replays, and then a wait

Rank 0 writes the times of each turn into its journal, as decisions: (plain torch, dpsim), in microseconds.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol
from real.calls import reduction
from real.rank import RealRank

PROGRAM = "bench_gpu"
HOST_SUM = "host sum"

Way: TypeAlias = Callable[[], Awaitable[object]]
Ways: TypeAlias = dict[str, tuple[Way, Way]]
"""Maps a name to its two ways: plain torch and dpsim."""

COUNTS = {"coordination": 60, "launches": 30, HOST_SUM: 60, "broadcast": 40, "replay": 60, "replays": 10}
"""The number of repetitions in a turn, whose median counts."""

COLD = 8
"""The number of first repetitions that do not count, because the caches still have other code."""

COLUMN = 1, 2, 3, 4

LAYERS, TOKENS, WIDTH, REPLAYS = 8, 32, 2048, 20


@register_protocol(PROGRAM)
class Beside(Program[Mapping[str, Any]]):
    """A program that runs all ways. `turns`: the number of turns, plus a first one that does not count.

    `gpu`: it also runs the ways that need a GPU.
    """

    def prepare(self, args: Any) -> Mapping[str, Any]:
        given: Mapping[str, Any] = args
        return given

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        import torch

        assert isinstance(rank, RealRank)
        ways = host_ways(rank)
        if prepared["gpu"]:
            ways = {**device_ways(rank), **await graph_ways(rank), **ways}
        for rank.step in range(prepared["turns"] + 1):
            for name, (plain, ours) in ways.items():
                if prepared["gpu"]:  # because an op of dpsim leaves its own stream current
                    torch.cuda.set_stream(torch.cuda.default_stream())
                took = await median_us(plain, COUNTS[name]), await median_us(ours, COUNTS[name])
                if rank.step:
                    rank.decide(name.replace(" ", "_"), took, "dp_cpu")
        await rank.host("dp_cpu").barrier(site="end")


async def median_us(way: Way, count: int) -> float:
    gc.collect()
    took = []
    for _ in range(COLD + count):
        begun = time.perf_counter_ns()
        await way()
        took.append(time.perf_counter_ns() - begun)
    return statistics.median(took[COLD:]) / 1e3


def host_ways(rank: RealRank) -> Ways:
    import torch
    from torch.distributed import distributed_c10d as c10d

    group: Any = rank.host("dp_cpu")
    process_group = group._group.process_group
    options = c10d.AllreduceOptions()
    options.asyncOp = True

    async def plain() -> None:
        table = torch.zeros((4, group.size), dtype=torch.int32)
        table[:, group.index] = 7
        process_group.allreduce([table], options).wait()

    async def ours() -> None:
        table = np.zeros((4, group.size), np.int32)
        table[:, group.index] = 7
        await group.all_reduce(table, site="host")

    return {HOST_SUM: (plain, ours)}


def device_ways(rank: RealRank) -> Ways:
    import torch
    from torch.distributed import distributed_c10d as c10d

    group: Any = rank.device("dp")
    main, side = rank.stream("main"), rank.stream("side")
    process_group, device = group._nccl.process_group, torch.device("cuda", rank.rank)
    default, other = torch.cuda.default_stream(device), torch.cuda.Stream(device)
    summing, telling = c10d.AllreduceOptions(), c10d.BroadcastOptions()
    summing.asyncOp = telling.asyncOp = False  # on the current stream

    async def plain_coordination() -> None:
        table = torch.empty((4, group.size), dtype=torch.int32, device=device)
        fill(table, group.index, COLUMN)
        process_group.allreduce([table], summing)
        table.cpu()

    async def coordination() -> None:
        table = main.alloc((4, group.size), "int32", "table")
        main.launch("fill", fill, writes=[table], args=(group.index, COLUMN))
        group.all_reduce(table, main, site="agree")
        await table.read("read")
        table.free()

    async def plain_launches() -> None:
        numbers = torch.empty(256, dtype=torch.int32, device=device)
        for _ in range(20):
            increment(numbers)
        numbers.cpu()

    async def launches() -> None:
        numbers = main.alloc(256, "int32", "numbers")
        for _ in range(20):
            main.launch("increment", increment, writes=[numbers])
        await numbers.read("read")
        numbers.free()

    async def plain_broadcast() -> None:
        tokens = torch.empty(64, dtype=torch.int32, device=device)
        increment(tokens)
        other.wait_stream(default)
        with torch.cuda.stream(other):
            process_group.broadcast([tokens], telling)
        default.wait_stream(other)
        tokens.cpu()

    async def broadcast() -> None:
        tokens = main.alloc(64, "int32", "tokens")
        main.launch("increment", increment, writes=[tokens])
        side.wait_stream(main)
        group.broadcast(tokens, 0, side, site="tell")
        main.wait_stream(side)
        await tokens.read("read")
        tokens.free()

    return {
        "coordination": (plain_coordination, coordination),
        "launches": (plain_launches, launches),
        "broadcast": (plain_broadcast, broadcast),
    }


async def graph_ways(rank: RealRank) -> Ways:
    import torch

    group: Any = rank.device("dp")
    main, device = rank.stream("main"), torch.device("cuda", rank.rank)
    process_group, own = group._nccl.process_group, torch.cuda.Stream(device)
    summing = reduction("sum", False, "int32")
    numbers, graph = torch.zeros((TOKENS, WIDTH), device=device), torch.cuda.CUDAGraph()
    process_group.allreduce([numbers], summing)  # NCCL connects before the captures
    torch.cuda.synchronize()
    with torch.cuda.stream(own):
        graph.capture_begin()
        for _ in range(LAYERS):
            halve(numbers)
            process_group.allreduce([numbers], summing)
        graph.capture_end()
    buffer, journaled = main.alloc((TOKENS, WIDTH), "float32", "numbers"), rank.graph("layers")
    main.launch("start", start, writes=[buffer])
    async with journaled.capture(main):
        for _ in range(LAYERS):
            main.launch("halve", halve, writes=[buffer])
            group.all_reduce(buffer, main, site="sum")

    async def plain_replays(count: int = REPLAYS) -> None:
        for _ in range(count):
            graph.replay()
        torch.cuda.current_stream().synchronize()

    async def replays(count: int = REPLAYS) -> None:
        for _ in range(count):
            journaled.replay(main, "replay")
        await main.record().synchronize("wait")

    return {
        "replay": (lambda: plain_replays(1), lambda: replays(1)),
        "replays": (plain_replays, replays),
    }


def start(numbers: Any) -> None:
    """A kernel that sets all numbers to 1."""
    numbers[:] = 1


def halve(numbers: Any) -> None:
    """A kernel of one torch op."""
    numbers *= 0.5


def fill(table: Any, index: int, column: tuple[int, ...]) -> None:
    """A kernel of five torch ops."""
    table[:] = 0
    for row, value in enumerate(column):
        table[row, index] = value


def increment(numbers: Any) -> None:
    """A kernel of one torch op."""
    numbers += 1
