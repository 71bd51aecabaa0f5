"""A program that measures how long two microbatches' streams are busy on a GPU, and how long both are busy at once.

Each attention, expert and all-to-all occupies its stream for about 10 ms. The host's work in between is short
in comparison. Torch's profiler records on the device's clock when the kernels of each stream ran.
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
    """Nanoseconds in which kernels ran on the compute stream, on the comm stream, and on both at once."""

    compute: int
    comm: int
    both: int


def spin(array: Any) -> None:
    """Kernel: occupies the stream, if it is a GPU's."""
    if getattr(array, "is_cuda", False):
        import torch

        torch.cuda._sleep(CYCLES)


class Spinning(Forward033):
    """A forward whose computations take time."""

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
    """Returns a forward whose all-to-all also occupies its stream."""

    class Exchange(forward.all_to_all):  # type: ignore[name-defined,misc]  # the base is a parameter
        def exchange(
            self, output: Buffer, source: Buffer, to: Sequence[int], come: Sequence[int], stream: Stream, site: str
        ) -> None:
            held(stream, output)
            super().exchange(output, source, to, come, stream, site)

    return type(f"Spinning{forward.__name__}", (Spinning, forward), {"all_to_all": Exchange})


FORWARDS = {"spinning": slow_network(Eight), "spinning-late": slow_network(EightLateAtOnce)}


@register_protocol("dbo_profiled")
class Profiled(Program[str]):
    """Runs one step twice: a warm-up, and a step under the profiler.

    Each rank records as decision how long streams were busy.
    """

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
    """Returns by stream the intervals in which kernels ran."""
    found: dict[int, list[Interval]] = {}
    for event in told.profiler.kineto_results.events():
        if str(event.device_type()) == "DeviceType.CUDA" and event.duration_ns() > 0:
            begin = event.start_ns()
            found.setdefault(event.device_resource_id(), []).append((begin, begin + event.duration_ns()))
    return found


SHORTEST = 1_000
"""The shortest overlap that counts, in nanoseconds.

Timestamps of consecutive kernels may overlap by less, and no kernel is shorter.
"""


def busy(kernels: dict[int, list[Interval]]) -> Busy:
    """Returns the busy time of the two busiest streams. The one that began first is the compute stream."""
    most = sorted(kernels.values(), key=lambda intervals: sum(end - begin for begin, end in intervals))[-2:]
    compute, comm = sorted(map(joined, most))
    return Busy(length(compute), length(comm), length(intersection(compute, comm, SHORTEST)))


def joined(intervals: list[Interval]) -> list[Interval]:
    """Merges intervals that touch.

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
    """Returns the intervals that are in both lists, if they are at least `shortest` long.

    >>> intersection([(0, 3), (5, 9)], [(2, 6)]), intersection([(0, 4), (5, 9)], [(2, 6)], shortest=2)
    ([(2, 3), (5, 6)], [(2, 4)])
    """
    cuts = [(max(a, c), min(b, d)) for a, b in ones for c, d in others]
    return [(begin, end) for begin, end in cuts if begin + shortest <= end]


def length(intervals: list[Interval]) -> int:
    return sum(end - begin for begin, end in intervals)


__all__ = ["FORWARDS", "Busy", "Profiled", "busy"]
