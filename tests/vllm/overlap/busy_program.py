"""A program that says how long the streams of two microbatches were busy on a GPU, and how long both at once.

Each attention and each expert holds its stream for a while, and each all-to-all as long. So what the host does between
them is short beside it. Torch's profiler tells when the kernels of each stream ran, on the device's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from dpsim.contract.interface import Buffer, Rank, Stream
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol
from dpsim.vllm.overlap.forms import Forward033
from tests.vllm.overlap.test_speed_up import Eight, EightLateAtOnce, Forwards

CYCLES = 20_000_000
"""About 10 ms of an H100 or H200. A host that takes 1 ms to enqueue its next op is still early.

With 2,000,000 cycles (1 ms), the host of a loaded machine was late: of 219 runs on two H100s, 24 overlapped by less
than half.
"""

Interval = tuple[int, int]
"""Begin and end, in nanoseconds."""


class Busy(NamedTuple):
    """Nanoseconds in which the kernels of two streams ran, and in which both did."""

    compute: int
    comm: int
    both: int


def spin(array: Any) -> None:
    """Kernel: hold the stream, if it is a GPU's."""
    if getattr(array, "is_cuda", False):
        import torch

        torch.cuda._sleep(CYCLES)


class Spinning(Forward033):
    """A forward whose computing takes time."""

    async def run_expert(self, layer: int, received: Buffer) -> Buffer:
        outgoing: Buffer = await super().run_expert(layer, received)
        held(self.dbo.stream, outgoing)
        return outgoing

    def attend(self, layer: int, context: Any, query: Buffer, attended: Buffer) -> None:
        super().attend(layer, context, query, attended)
        held(self.dbo.stream, attended)


def held(stream: Stream, buffer: Buffer) -> None:
    stream.launch("spin", spin, writes=[buffer], cost=0)


def slow_network(forward: type[Forward033]) -> type[Forward033]:
    """The forward with an all-to-all that holds its stream too."""

    class Exchange(forward.all_to_all):  # type: ignore[name-defined,misc]  # a base that is known at run time
        def exchange(
            self, output: Buffer, source: Buffer, to: Sequence[int], come: Sequence[int], stream: Stream, site: str
        ) -> None:
            held(stream, output)
            super().exchange(output, source, to, come, stream, site)

    return type(f"Spinning{forward.__name__}", (Spinning, forward), {"all_to_all": Exchange})


FORWARDS = {"spinning": slow_network(Eight), "spinning-late": slow_network(EightLateAtOnce)}


@register_protocol("dbo_profiled")
class Profiled(Program[str]):
    """One step, once to warm up and once looked at. Each rank decides how long its streams were busy."""

    threaded = True

    async def run(self, rank: Rank, prepared: str) -> None:
        from torch.profiler import ProfilerActivity, profile

        forward = FORWARDS[prepared]
        await Forwards().run(rank, forward)
        await rank.stream("main").record().synchronize("warm")
        with profile(activities=[ProfilerActivity.CUDA]) as told:
            await Forwards().run(rank, forward)
            await rank.stream("main").record().synchronize("end")
        rank.decide("busy", tuple(busy(kernels_of(told))), "dp_cpu")


def kernels_of(told: Any) -> dict[int, list[Interval]]:
    """When kernels ran, by stream."""
    found: dict[int, list[Interval]] = {}
    for event in told.profiler.kineto_results.events():
        if str(event.device_type()) == "DeviceType.CUDA" and event.duration_ns() > 0:
            begin = event.start_ns()
            found.setdefault(event.device_resource_id(), []).append((begin, begin + event.duration_ns()))
    return found


SHORTEST = 1_000
"""No kernel is shorter: as long as that may seem to be both what ends and what begins with its end."""


def busy(kernels: dict[int, list[Interval]]) -> Busy:
    """Of the two streams that had most to do, the one that began first being that of computing."""
    most = sorted(kernels.values(), key=lambda intervals: sum(end - begin for begin, end in intervals))[-2:]
    compute, comm = sorted(map(joined, most))
    return Busy(length(compute), length(comm), length(intersection(compute, comm, SHORTEST)))


def joined(intervals: list[Interval]) -> list[Interval]:
    """Those that touch are one.

    >>> joined([(5, 6), (0, 2), (1, 3)])
    [(0, 3), (5, 6)]
    """
    found: list[Interval] = []
    for begin, end in sorted(intervals):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found


def intersection(ones: list[Interval], others: list[Interval], shortest: int = 1) -> list[Interval]:
    """Where both are, for so long at least.

    >>> intersection([(0, 3), (5, 9)], [(2, 6)]), intersection([(0, 4), (5, 9)], [(2, 6)], shortest=2)
    ([(2, 3), (5, 6)], [(2, 4)])
    """
    cuts = [(max(a, c), min(b, d)) for a, b in ones for c, d in others]
    return [(begin, end) for begin, end in cuts if begin + shortest <= end]


def length(intervals: list[Interval]) -> int:
    return sum(end - begin for begin, end in intervals)


__all__ = ["FORWARDS", "Busy", "Profiled", "busy"]
