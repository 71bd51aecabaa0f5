"""Configuration: vLLM's own names, their validation, and the values derived from them.

Four groups of fields, as in vLLM (`ParallelConfig`, `SchedulerConfig`, `CacheConfig`, `CompilationConfig`), joined flat
in `EngineConfig`, as on vLLM's command line. A piece of protocol asks for the group that it needs. Sources:
specification chapters 1.3, 3.1, 5.1, 5.11 and 9.2; vLLM's `CacheConfig`.

    >>> config = EngineConfig(enable_dbo=True, async_scheduling=True)
    >>> config.num_ubatches, config.syncs_on_host, config.uniform_decode_query_len
    (2, True, 1)
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum, StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

MAX_RANKS = 4096
MAX_TOKENS = 1 << 24

Size = Annotated[int, Field(ge=1, le=MAX_RANKS, strict=True)]
Tokens = Annotated[int, Field(ge=1, le=MAX_TOKENS, strict=True)]


class RuntimeMode(IntEnum):
    """How a batch is run; on the wire as this integer (chapter 0)."""

    NONE = 0
    PIECEWISE = 1
    FULL = 2


class CUDAGraphMode(StrEnum):
    """What is configured; the last two exist only here, never at run time (chapter 5.1)."""

    NONE = "NONE"
    PIECEWISE = "PIECEWISE"
    FULL = "FULL"
    FULL_DECODE_ONLY = "FULL_DECODE_ONLY"
    FULL_AND_PIECEWISE = "FULL_AND_PIECEWISE"

    @property
    def decode_mode(self) -> RuntimeMode:
        """The mode of uniform decode batches."""
        return _MODES[self][0]

    @property
    def mixed_mode(self) -> RuntimeMode:
        """The mode of all other batches."""
        return _MODES[self][1]

    @property
    def separate_routine(self) -> bool:
        """Whether decode batches have graphs of their own."""
        return self in (CUDAGraphMode.FULL_DECODE_ONLY, CUDAGraphMode.FULL_AND_PIECEWISE)

    def has_mode(self, mode: RuntimeMode) -> bool:
        """Whether some batch may run in `mode`."""
        return mode in _MODES[self]


_MODES = {
    CUDAGraphMode.NONE: (RuntimeMode.NONE, RuntimeMode.NONE),
    CUDAGraphMode.PIECEWISE: (RuntimeMode.PIECEWISE, RuntimeMode.PIECEWISE),
    CUDAGraphMode.FULL: (RuntimeMode.FULL, RuntimeMode.FULL),
    CUDAGraphMode.FULL_DECODE_ONLY: (RuntimeMode.FULL, RuntimeMode.NONE),
    CUDAGraphMode.FULL_AND_PIECEWISE: (RuntimeMode.FULL, RuntimeMode.PIECEWISE),
}


class StrictModel(BaseModel):
    """Unknown keys are refused, nothing can be changed afterwards, and the repr is what differs from the defaults.

    >>> EngineConfig(max_num_seqs=4)
    EngineConfig(max_num_seqs=4)
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        defaults = {name: field.get_default() for name, field in type(self).model_fields.items()}
        return (one for one in super().__repr_args__() if one[0] not in defaults or one[1] != defaults[one[0]])


class Topology(StrictModel):
    """How many ranks, and which rank is what. Layout: reshape(world) to (DP, PP, TP), TP fastest (chapter 9.2)."""

    data_parallel_size: Size = 1
    pipeline_parallel_size: Size = 1
    tensor_parallel_size: Size = 1

    @model_validator(mode="after")
    def _limit(self) -> Self:
        if self.world_size > MAX_RANKS:
            raise ValueError(f"{self.world_size} ranks: the product of the three sizes may be at most {MAX_RANKS}")
        return self

    @property
    def world_size(self) -> int:
        return self.data_parallel_size * self.pipeline_parallel_size * self.tensor_parallel_size

    def coordinates(self, rank: int) -> tuple[int, int, int]:
        """(DP, PP, TP) position of a global rank."""
        rest, tp = divmod(rank, self.tensor_parallel_size)
        dp, pp = divmod(rest, self.pipeline_parallel_size)
        return dp, pp, tp

    def rank(self, dp: int, pp: int = 0, tp: int = 0) -> int:
        """The global rank at a (DP, PP, TP) position."""
        return (dp * self.pipeline_parallel_size + pp) * self.tensor_parallel_size + tp

    def dp_groups(self) -> list[tuple[int, ...]]:
        """The worker DP groups: one for each (PP, TP) position, members in order of their DP position."""
        sizes = range(self.data_parallel_size), range(self.pipeline_parallel_size), range(self.tensor_parallel_size)
        return [tuple(self.rank(dp, pp, tp) for dp in sizes[0]) for pp in sizes[1] for tp in sizes[2]]

    def expert_groups(self) -> list[tuple[int, ...]]:
        """The expert groups: all ranks of one pipeline stage."""
        sizes = range(self.data_parallel_size), range(self.pipeline_parallel_size), range(self.tensor_parallel_size)
        return [tuple(self.rank(dp, pp, tp) for dp in sizes[0] for tp in sizes[2]) for pp in sizes[1]]


class ParallelConfig(StrictModel):
    """Microbatching and the domain of the agreement."""

    enable_dbo: bool = False
    ubatch_size: Annotated[int, Field(ge=0, le=64)] = 0
    dbo_decode_token_threshold: Tokens = 32
    dbo_prefill_token_threshold: Tokens = 512
    async_scheduling: bool = False
    disable_nccl_for_dp_synchronization: bool | None = None

    @property
    def use_ubatching(self) -> bool:
        return self.enable_dbo or self.ubatch_size > 1

    @property
    def num_ubatches(self) -> int:
        """U. `enable_dbo` wins over `ubatch_size`; 1 when nothing is microbatched."""
        return 2 if self.enable_dbo else max(self.ubatch_size, 1)

    @property
    def syncs_on_host(self) -> bool:
        """Whether ranks agree over gloo (host) or NCCL (device): unset means "as async scheduling" (chapter 1.4)."""
        unset = self.disable_nccl_for_dp_synchronization is None
        return self.async_scheduling if unset else bool(self.disable_nccl_for_dp_synchronization)

    @model_validator(mode="after")
    def _thresholds(self) -> Self:
        least = min(self.dbo_decode_token_threshold, self.dbo_prefill_token_threshold)
        if self.use_ubatching and least < self.num_ubatches:
            raise ValueError(
                f"a threshold of {least} tokens cannot fill {self.num_ubatches} microbatches: set both dbo thresholds "
                f"to at least {self.num_ubatches}"
            )
        return self


class SchedulerConfig(StrictModel):
    """What a rank's scheduler may put into one step."""

    max_num_seqs: Tokens = 128
    max_num_batched_tokens: Tokens = 8192
    num_speculative_tokens: Annotated[int, Field(ge=0, le=64)] = 0
    speculative_method: Literal["ngram", "mtp"] = "ngram"
    """Who proposes tokens: the host, or layers of a model that have experts of their own."""
    speculative_max_model_len: Tokens | None = None
    """The longest sequence that those layers take; unset, any."""

    @property
    def uniform_decode_query_len(self) -> int:
        """q: tokens that a decoding request brings into a step."""
        return 1 + self.num_speculative_tokens

    @property
    def has_drafter(self) -> bool:
        """Whether a model proposes tokens, whose layers all ranks have to run."""
        return self.num_speculative_tokens > 0 and self.speculative_method != "ngram"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        least = max(self.max_num_seqs, self.uniform_decode_query_len)
        if self.max_num_batched_tokens < least:
            raise ValueError(
                f"max_num_batched_tokens={self.max_num_batched_tokens} cannot hold one token of each of max_num_seqs="
                f"{self.max_num_seqs} requests, or the {self.uniform_decode_query_len} of one decode: make it at least "
                f"{least}, or lower the others"
            )
        return self


class CacheConfig(StrictModel):
    """The KV cache of a rank. `num_gpu_blocks_override` unset means that it is never too small."""

    block_size: Annotated[int, Field(ge=1, le=1024, strict=True)] = 16
    num_gpu_blocks_override: Tokens | None = None

    def blocks(self, tokens: int) -> int:
        """Blocks that so many tokens of one request take."""
        return -(-tokens // self.block_size)


class CompilationConfig(StrictModel):
    """CUDA graphs. What a release makes of the sizes, given or not, is `dpsim.protocol.graphs.sizes`."""

    cudagraph_mode: CUDAGraphMode = CUDAGraphMode.FULL_AND_PIECEWISE
    cudagraph_capture_sizes: tuple[PositiveInt, ...] | None = Field(default=None, max_length=4096)
    max_cudagraph_capture_size: Tokens | None = None
    performance_mode: Literal["balanced", "interactivity"] = "balanced"
    enforce_eager: bool = False
    capture_graphs: bool = Field(
        default=False,
        description="Whether graphs are captured before the first step and replayed, or only chosen. Without a graph "
        "to choose (enforce_eager, cudagraph_mode NONE) none is captured. Not one of vLLM's names: it always captures.",
    )
    enable_sp: bool = False
    """Sequence parallelism: a batch is cut into equal parts for the tensor-parallel ranks."""
    enable_lora: bool = False
    cudagraph_specialize_lora: bool = True


class EngineConfig(ParallelConfig, SchedulerConfig, CacheConfig, CompilationConfig):
    """All of it, flat."""
