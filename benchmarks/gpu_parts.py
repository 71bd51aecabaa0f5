"""The parts that `benchmarks.gpu_profile` measures: a coordination step and 20 launches, in variants, in one worker.

    plain          plain torch on the same process group
    polled         plain torch with reads that do not block the host: pinned memory, an event, polls
    memory         dpsim, with its journal in a file in memory
    disk           dpsim, with its journal in a file in the folder of temporary files
    none           dpsim, without a journal
    shared         like memory, but every op takes the slower code path that plants faults

Without a GPU, the program omits `polled` and `shared`, and the others only show that the program runs.

A turn repeats each variant of each loop `COUNTS` times. Rank 0 writes the figures of a turn into its journal, as
decisions at "LOOP/VARIANT", in microseconds. They are the medians of the parts, their tenth percentiles, the median of
the whole, and the page faults per repetition.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import statistics
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from time import perf_counter_ns
from typing import Any, TypeAlias

from benchmarks.gpu_ways import COLD, COLUMN, fill, increment
from dpsim.contract.interface import Rank
from dpsim.contract.ops import RawRecord
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol
from real.cuda_groups import CudaCommunicator
from real.cuda_streams import CudaStream
from real.folder import MEMORY
from real.journal_file import JournalFile
from real.rank import RealRank

PROGRAM = "bench_gpu_parts"

PARTS = {
    "coordination": ("alloc", "fill", "all_reduce", "read", "await", "free"),
    "launches": ("alloc", "20 launches", "read", "await", "free"),
}
"""The parts of each loop."""

COUNTS = {"coordination": 60, "launches": 30}
"""How often a turn repeats each loop."""

PLAIN = ("plain", "polled")
"""Variants that use torch's default stream. They have no part "read", because torch reads while the host waits."""

Sink: TypeAlias = Callable[[RawRecord], None]
Loop: TypeAlias = Callable[[], Awaitable[tuple[int, ...]]]
"""Runs a loop once, and returns the clock in nanoseconds before it and after each part."""


@register_protocol(PROGRAM)
class Parts(Program[Mapping[str, Any]]):
    """A program that runs all variants. `turns`: the number of turns, plus a first one that does not count."""

    def prepare(self, args: Any) -> Mapping[str, Any]:
        given: Mapping[str, Any] = args
        return given

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        assert isinstance(rank, RealRank)
        usual = rank.journal._sink
        with sinks(rank.rank) as ways_out:
            loops = variants(rank, list(ways_out))
            for rank.step in range(prepared["turns"] + 1):
                names = list(loops)
                first = rank.step % len(names)  # so that no variant always follows the same other one
                for name in names[first:] + names[:first]:
                    for loop, once in loops[name].items():
                        if name in PLAIN and isinstance(rank.stream("main"), CudaStream):
                            default_stream()
                        rank.journal._sink = ways_out.get(name, ways_out["none"])
                        took = await figures(once, COUNTS[loop])
                        rank.journal._sink = usual
                        if rank.step:
                            rank.decide(f"{loop}/{name}", took, "dp_cpu")
        await rank.host("dp_cpu").barrier(site="end")


async def figures(once: Loop, count: int) -> tuple[Any, ...]:
    gc.collect()
    for _ in range(COLD):
        await once()
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    took = [await once() for _ in range(count)]
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    parts = [[(end - begin) / 1e3 for begin, end in pairwise(clock)] for clock in took]
    each = [sorted(one) for one in zip(*parts, strict=True)]
    whole = statistics.median((clock[-1] - clock[0]) / 1e3 for clock in took)
    return tuple(map(statistics.median, each)), tuple(one[len(one) // 10] for one in each), whole, faults / count


@contextlib.contextmanager
def sinks(rank: int) -> Iterator[dict[str, Sink]]:
    """Yields, for each variant of dpsim, the function that writes records. It omits a folder in which it cannot
    write.
    """
    with contextlib.ExitStack() as opened:
        found: dict[str, Sink] = {}
        for name, parent in (("memory", MEMORY), ("disk", Path(tempfile.gettempdir()))):
            with contextlib.suppress(OSError):
                folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="dpsim-profile-", dir=parent))
                file = JournalFile(os.path.join(folder, f"rank-{rank}.journal"))
                opened.callback(file.close)
                found[name] = file.write
        found["none"] = lambda record: None
        found["shared"] = found.get("memory", found["none"])
        yield found


def default_stream() -> None:
    """Sets torch's default stream as the current stream, because an op of dpsim leaves its own stream current."""
    import torch

    torch.cuda.set_stream(torch.cuda.default_stream())


def variants(rank: RealRank, journaled: list[str]) -> dict[str, dict[str, Loop]]:
    """Returns the loops of each variant. `journaled`: the names of the variants with a journal."""
    main, group = rank.stream("main"), rank.device("dp")
    ours = contract(main, group)
    found = {"plain": plain(rank, polled=False), **{name: ours for name in journaled if name != "shared"}}
    if isinstance(main, CudaStream) and isinstance(group, CudaCommunicator):
        stream = CudaStream(rank, main.name, main.handle, main.calls, 1.0)
        found |= {"polled": plain(rank, polled=True), "shared": contract(stream, CudaCommunicator(rank, group._nccl))}
    return found


def contract(main: Any, group: Any) -> dict[str, Loop]:
    async def coordination() -> tuple[int, ...]:
        begun = perf_counter_ns()
        table = main.alloc((4, group.size), "int32", "table")
        allocated = perf_counter_ns()
        main.launch("fill", fill, writes=[table], args=(group.index, COLUMN))
        filled = perf_counter_ns()
        group.all_reduce(table, main, site="agree")
        summed = perf_counter_ns()
        work = table.read("read")
        issued = perf_counter_ns()
        await work
        awaited = perf_counter_ns()
        table.free()
        return begun, allocated, filled, summed, issued, awaited, perf_counter_ns()

    async def launches() -> tuple[int, ...]:
        begun = perf_counter_ns()
        numbers = main.alloc(256, "int32", "numbers")
        allocated = perf_counter_ns()
        for _ in range(20):
            main.launch("increment", increment, writes=[numbers])
        launched = perf_counter_ns()
        work = numbers.read("read")
        issued = perf_counter_ns()
        await work
        awaited = perf_counter_ns()
        numbers.free()
        return begun, allocated, launched, issued, awaited, perf_counter_ns()

    return {"coordination": coordination, "launches": launches}


def plain(rank: RealRank, polled: bool) -> dict[str, Loop]:
    import torch
    from torch.distributed import distributed_c10d as c10d

    main, group = rank.stream("main"), rank.device("dp")
    on_gpu = isinstance(main, CudaStream)
    device: Any = main.calls.device if isinstance(main, CudaStream) else "cpu"
    made = group._nccl if isinstance(group, CudaCommunicator) else group._gloo  # type: ignore[attr-defined]
    process_group = made.process_group
    summing = c10d.AllreduceOptions()
    summing.asyncOp = not on_gpu  # on a GPU: on the current stream
    read = reader() if polled else cpu

    async def coordination() -> tuple[int, ...]:
        begun = perf_counter_ns()
        table = torch.empty((4, group.size), dtype=torch.int32, device=device)
        allocated = perf_counter_ns()
        fill(table, group.index, COLUMN)
        filled = perf_counter_ns()
        work = process_group.allreduce([table], summing)
        if not on_gpu:
            work.wait()
        summed = perf_counter_ns()
        read(table)
        awaited = perf_counter_ns()
        del table
        return begun, allocated, filled, summed, summed, awaited, perf_counter_ns()

    async def launches() -> tuple[int, ...]:
        begun = perf_counter_ns()
        numbers = torch.empty(256, dtype=torch.int32, device=device)
        allocated = perf_counter_ns()
        for _ in range(20):
            increment(numbers)
        launched = perf_counter_ns()
        read(numbers)
        awaited = perf_counter_ns()
        del numbers
        return begun, allocated, launched, launched, awaited, perf_counter_ns()

    return {"coordination": coordination, "launches": launches}


def cpu(tensor: Any) -> Any:
    return tensor.cpu()


def reader() -> Callable[[Any], Any]:
    """Returns a read that holds no lock and blocks in no call, as dpsim requires it."""
    import torch

    event, blocks = torch.cuda.Event(), dict[Any, Any]()

    def read(tensor: Any) -> Any:
        pinned = blocks.get(tensor.shape)
        if pinned is None:
            pinned = blocks[tensor.shape] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        pinned.copy_(tensor, non_blocking=True)
        event.record()
        while not event.query():
            pass
        return pinned.numpy().copy()

    return read
