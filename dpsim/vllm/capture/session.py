"""A capture session: the CUDA graphs that a rank captures before it serves, and their order (specification 5.6).

A captured forward contains collectives, and so does the warm-up before each capture. So all ranks have to capture the
same list of graphs in the same order (invariant I-CG-6). Each rank records its current entry as a decision, and a check
compares the decisions. For each entry, the rank runs the forward several times:

    mode NONE       `warm_ups` times       initialises what is lazy, before the capture forbids it
    target mode     once                   the wrappers capture

The largest graph of each mode comes first, because all share a memory pool and output buffers. Their first use makes
these large enough for all (invariant I-CG-13). The session runs on a separate stream. At the end, before any replay,
its caller exchanges over host memory what the ranks need from each other's graphs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, TypeAlias

from dpsim.contract.interface import Rank, Stream
from dpsim.vllm.config import EngineConfig, RuntimeMode
from dpsim.vllm.graphs.dispatcher import Descriptor


def refused(config: EngineConfig) -> str | None:
    """Returns why captures would differ from the forwards of a run; None without microbatches."""
    if not config.use_ubatching:
        return None
    asked = {"enable_dbo": config.enable_dbo, "ubatch_size": config.ubatch_size > 1}
    keys = ", ".join(key for key, microbatches in asked.items() if microbatches)
    return f"config.capture_graphs: microbatches are not captured; remove {keys}"


class Target(NamedTuple):
    """One entry of the session: a FULL graph, or a PIECEWISE graph of each piece.

    `num_ubatches`: used by the V2 runner, which has graphs of whole batches and of microbatches. Ranks of the V1 runner
    agree in each run of the session whether they split it.
    """

    mode: RuntimeMode
    key: Descriptor
    num_ubatches: int = 1


DummyRun: TypeAlias = Callable[[Target, RuntimeMode, Stream], Awaitable[None]]
"""Runs a forward for a target, in the given mode, on the given stream."""


class CaptureSession:
    """The session of one rank. `kinds`: the communicators whose members have to capture the same graphs."""

    warm_ups = 1

    def __init__(self, rank: Rank, kinds: tuple[str, ...]) -> None:
        self.rank, self.kinds = rank, kinds
        self.main, self.stream = rank.stream("main"), rank.stream("capture")

    async def run(self, targets: Iterable[Target], dummy_run: DummyRun) -> None:
        """Capture all targets on the capture stream."""
        self.stream.wait_stream(self.main)
        for target in self.order(targets):
            await self.capture(target, dummy_run)
        self.main.wait_stream(self.stream)

    def order(self, targets: Iterable[Target]) -> list[Target]:
        """The order of the captures: PIECEWISE before FULL, and the largest first. It is the same on every rank."""

        def place(target: Target) -> tuple[int, int, bool, bool]:
            return target.mode, -target.key.num_tokens, target.key.uniform, not target.key.has_lora

        return sorted(targets, key=place)

    async def capture(self, target: Target, dummy_run: DummyRun) -> None:
        """Record the entry as a decision, run its warm-ups, and capture it."""
        for kind in self.kinds:
            self.rank.decide("capture", (target.mode.name, *target.key._asdict().items()), kind)
        for _ in range(self.warm_ups):
            await dummy_run(target, RuntimeMode.NONE, self.stream)
        await dummy_run(target, target.mode, self.stream)
