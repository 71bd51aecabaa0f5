"""The program `testing_steps`, which the cases of `dpsim.testing` run on a backend: six steps of parts that a case
chooses.

    PartsByStep().run(rank, {"parts": ["host", "device"]})

Every value depends on rank and step. So if a collective pairs with one of another step, the learned values show it.
Only the parts `raises`, `scribbles` and `returns` are faulty. All other faults and delays are planted by the world.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpsim.contract.interface import HostArray, Kernel, Rank
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol

STEPS = 6
ODD = 3  # the step in which a case plants a fault: not the first, so that there is a history, and not the last


@register_protocol("testing_steps")
class PartsByStep(Program[Mapping[str, Any]]):
    """A program for dpsim.testing. The argument `parts` names the parts of each step."""

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        for step in range(STEPS):
            rank.step = step
            for part in prepared["parts"]:
                await getattr(self, part)(rank, step)

    async def host(self, rank: Rank, step: int) -> None:
        """A sum over host memory."""
        total = await rank.host("dp_cpu").all_reduce(_mine(rank, step), site="check.sum")
        rank.decide("sum", int(total.sum()), "dp_cpu")

    async def root(self, rank: Rank, step: int) -> None:
        """A broadcast of host memory."""
        received = await rank.host("dp_cpu").broadcast(_mine(rank, step), 0, site="check.tell")
        rank.decide("told", int(received.sum()), "dp_cpu")

    async def device(self, rank: Rank, step: int) -> None:
        """A kernel, a sum and a broadcast over device memory, in stream order."""
        main, experts = rank.stream("main"), rank.device("ep")
        buffer = main.alloc(8, "int32", "check.buffer")
        main.launch("check.fill", fill, writes=[buffer], args=(100 * step + rank.rank,))
        rank.device("dp").all_reduce(buffer, main, site="check.combine")
        experts.broadcast(buffer, experts.ranks[0], main, site="check.share")
        result = await buffer.read("check.read")
        buffer.free()
        rank.decide("combined", int(result.sum()), "dp")

    async def captured(self, rank: Rank, step: int) -> None:
        """A CUDA graph with a kernel and a sum, captured and replayed in each step."""
        main, graph = rank.stream("main"), rank.graph(f"check.{step}")
        buffer = main.alloc(8, "int32", "check.buffer")
        async with graph.capture(main):
            main.launch("check.fill", fill, writes=[buffer], args=(100 * step + rank.rank,))
            rank.device("dp").all_reduce(buffer, main, site="check.captured")
        graph.replay(main, "check.replay")
        await buffer.read("check.read")
        buffer.free()

    async def ahead(self, rank: Rank, step: int) -> None:
        """Starts two sums, and awaits the later one first. The host runs ahead of its stream by a whole step."""
        group, main = rank.host("dp_cpu"), rank.stream("main")
        first = group.all_reduce(_mine(rank, step), site="check.first")
        second = group.all_reduce(-_mine(rank, step), site="check.second")
        buffer = main.alloc(8, "int64", "check.ahead")
        main.launch("check.fill", fill, writes=[buffer], args=(step,))
        rank.device("dp").all_reduce(buffer, main, site="check.ahead")
        if step == STEPS - 1:
            rank.decide("ahead", int((await buffer.read("check.late")).sum()), "dp")
        buffer.free()
        rank.decide("second", int((await second).sum()), "dp_cpu")
        rank.decide("first", int((await first).sum()), "dp_cpu")

    async def raises(self, rank: Rank, step: int) -> None:
        """The last rank raises at the beginning of one step."""
        if step == ODD and rank.rank == rank.host("dp_cpu").size - 1:
            raise ValueError("as the case asks")

    async def scribbles(self, rank: Rank, step: int) -> None:
        """In one step, a kernel of the last rank writes to a buffer that it may only read."""
        await self._kernel(rank, step, scribble)

    async def returns(self, rank: Rank, step: int) -> None:
        """In one step, a kernel of the last rank returns a value."""
        await self._kernel(rank, step, copies_and_returns)

    async def _kernel(self, rank: Rank, step: int, wrong: Kernel) -> None:
        main = rank.stream("main")
        source, target = (main.alloc(8, "int32", site) for site in ("check.source", "check.target"))
        main.launch("check.fill", fill, writes=[source], args=(step,))
        last = rank.host("dp_cpu").size - 1
        kernel = wrong if step == ODD and rank.rank == last else copies
        main.launch("check.copy", kernel, reads=[source], writes=[target])
        main.launch("check.again", copies, reads=[target], writes=[target])
        await target.read("check.read")
        source.free()
        target.free()

    async def overwritten(self, rank: Rank, step: int) -> None:
        """A buffer has the version of the step. In one step, the last rank writes the next version before the read."""
        main, last = rank.stream("main"), rank.host("dp_cpu").size - 1
        buffer = main.alloc(8, "int32", "check.buffer")
        for version in (step, step + 1)[: 1 + (step == ODD and rank.rank == last)]:
            main.launch("check.fill", fill, writes=[buffer.tagged(version)], args=(version,))
        await buffer.tagged(step).read("check.read")
        buffer.free()

    async def twice(self, rank: Rank, step: int) -> None:
        """Awaits a host collective and a read a second time."""
        work = rank.host("dp_cpu").all_reduce(_mine(rank, step), site="check.once")
        await work
        rank.decide("awaited.again", await _again(work), "dp_cpu")
        buffer = rank.stream("main").alloc(8, "float32", "check.buffer")
        rank.stream("main").launch("check.fill", fill, writes=[buffer], args=(step,))
        copy = buffer.read("check.read")
        await copy
        rank.decide("read.again", await _again(copy), "dp_cpu")
        buffer.free()


def fill(buffer: Any, value: int) -> None:
    """A kernel that writes the same value everywhere."""
    buffer[:] = value


def copies(source: Any, target: Any) -> None:
    """A kernel that copies its input."""
    target[:] = source


def scribble(source: Any, target: Any) -> None:
    """A kernel that writes to its input, which a backend must refuse."""
    source[:] = 0


def copies_and_returns(source: Any, target: Any) -> Any:
    """A kernel that returns a value, which a backend must refuse."""
    target[:] = source
    return 0


def _mine(rank: Rank, step: int) -> HostArray:
    return np.arange(4, dtype=np.int32) + 100 * step + rank.rank


async def _again(work: Any) -> str:
    try:
        await work
    except RuntimeError:
        return "RuntimeError"
    return "no error"
