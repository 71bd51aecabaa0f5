"""A capture session: which graphs a rank captures before it serves, and in which order (specification 5.6).

Captures contain the collectives of a forward, and each has a warm-up run before it, with collectives as well. So all
ranks have to go through the same list (I-CG-6), and each records its current entry as a decision:

    mode NONE       `warm_ups` times       initialises what is lazy, before the capture forbids it
    target mode     once                   the wrappers capture

The largest comes first: the pool and the buffers that all sizes share are made at first use, and then large enough for
all (I-CG-13).

All of it is on one separate stream, for all groups of ranks that the model communicates with. At the end ranks exchange
what they have to know of one another's graphs, over host memory: no replay may come before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, TypeAlias

from dpsim.contract.interface import Rank, Stream
from dpsim.vllm.config import EngineConfig, RuntimeMode
from dpsim.vllm.graphs.dispatcher import Descriptor


def refused(config: EngineConfig) -> str | None:
    """Why captures would differ from the forwards of a run: microbatches have no captures. None if they do not."""
    if not config.use_ubatching:
        return None
    asked = {"enable_dbo": config.enable_dbo, "ubatch_size": config.ubatch_size > 1}
    keys = ", ".join(key for key, microbatches in asked.items() if microbatches)
    return f"config.capture_graphs: microbatches are not captured; remove {keys}"


class Target(NamedTuple):
    """One graph, or one of each piece, to capture. `num_ubatches`: for the V2 runner, which has graphs of a whole batch
    and of microbatches. The V1 runner's ranks agree in each run whether they split it.
    """

    mode: RuntimeMode
    key: Descriptor
    num_ubatches: int = 1


DummyRun: TypeAlias = Callable[[Target, RuntimeMode, Stream], Awaitable[None]]
"""A forward for a target, in that mode, on that stream."""


class CaptureSession:
    """The session of one rank. `kinds`: the communicators whose members have to capture the same."""

    warm_ups = 1

    def __init__(self, rank: Rank, kinds: tuple[str, ...]) -> None:
        self.rank, self.kinds = rank, kinds
        self.main, self.stream = rank.stream("main"), rank.stream("capture")

    async def run(self, targets: Iterable[Target], dummy_run: DummyRun) -> None:
        """Capture all targets."""
        self.stream.wait_stream(self.main)
        for target in self.order(targets):
            await self.capture(target, dummy_run)
        self.main.wait_stream(self.stream)

    def order(self, targets: Iterable[Target]) -> list[Target]:
        """PIECEWISE before FULL, and the largest first: the same on every rank."""

        def place(target: Target) -> tuple[int, int, bool, bool]:
            return target.mode, -target.key.num_tokens, target.key.uniform, not target.key.has_lora

        return sorted(targets, key=place)

    async def capture(self, target: Target, dummy_run: DummyRun) -> None:
        """Capture one target, after its warm-ups."""
        for kind in self.kinds:
            self.rank.decide("capture", (target.mode.name, *target.key._asdict().items()), kind)
        for _ in range(self.warm_ups):
            await dummy_run(target, RuntimeMode.NONE, self.stream)
        await dummy_run(target, target.mode, self.stream)
