"""What a stage computes between its inputs and its outputs: its layers.

`Layers` is what a stage asks for. Here they are one kernel, which takes from its arguments which token is of which
request; `dpsim.vllm.pipeline.graphs` has them as graphs, which may not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from dpsim.contract.interface import Buffer, Rank
from dpsim.vllm.config import EngineConfig
from dpsim.vllm.model import kernels
from dpsim.vllm.pipeline.batches import InputBatch

LAYERS_NS = 20_000  # reference: one small layer


class Layers(ABC):
    """The layers of one rank.

    `cache`: int64 (layers, slots, positions), with `spare_slots` that no request gets. `hidden`: where the inputs of a
    forward are, by name.
    """

    spare_slots = 0

    def __init__(
        self,
        rank: Rank,
        config: EngineConfig,
        layers: tuple[int, ...],
        cache: Buffer,
        hidden: Mapping[str, Buffer],
        is_first: bool,
        tensor_parallel_size: int,
    ) -> None:
        self.rank, self.config, self.layers, self.is_first = rank, config, layers, is_first
        self.cache, self.hidden, self.main = cache, hidden, rank.stream("main")
        self.peers = rank.device("tp") if tensor_parallel_size > 1 else None

    @classmethod
    def largest(cls, config: EngineConfig) -> int:
        """Tokens for which the buffers need room in any case, whatever batches the run has."""
        return 1

    async def capture(self, kinds: tuple[str, ...]) -> None:
        """Capture graphs before serving. `kinds`: the communicators whose members capture the same (I-CG-6)."""
        return

    @abstractmethod
    async def run(self, input_batch: InputBatch, outgoing: Mapping[str, Buffer]) -> dict[str, Buffer]:
        """Run the layers. Returns their outputs by name, one row a token; `outgoing` has room for them."""


class EagerLayers(Layers):
    """All layers in one kernel."""

    async def run(self, input_batch: InputBatch, outgoing: Mapping[str, Buffer]) -> dict[str, Buffer]:
        count = input_batch.batch.num_tokens
        hidden = [buffer.view(0, count) for buffer in self.hidden.values()]
        if self.is_first:
            self.main.launch("embed", kernels.embed, reads=[input_batch.inputs], writes=hidden)
        left = {name: buffer.view(0, count) for name, buffer in outgoing.items()}
        self.main.launch(
            "layers",
            kernels.forward,
            reads=[*hidden, input_batch.inputs, input_batch.mapping],
            writes=[self.cache, *left.values()],
            args=(self.layers, input_batch.spans),
            cost=LAYERS_NS * len(self.layers),
        )
        return left
