"""The layers of a pipeline stage, which compute its outputs from its inputs."""

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

    `cache`: int64 of shape (layers, slots, positions). The last `spare_slots` slots belong to no request. `hidden`: the
    input buffers of a forward, by name.
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
        """The tokens for which the buffers need room, even if no batch of the run is this large."""
        return 1

    async def capture(self, kinds: tuple[str, ...]) -> None:
        """Capture graphs before serving. `kinds`: the communicators whose members have to capture the same
        (invariant I-CG-6).
        """
        return

    @abstractmethod
    async def run(self, input_batch: InputBatch, outgoing: Mapping[str, Buffer]) -> dict[str, Buffer]:
        """Run the layers. Returns their outputs by name, one row for each token. `outgoing`: buffers with room for the
        outputs.
        """


class EagerLayers(Layers):
    """All layers in one kernel, without graphs."""

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
