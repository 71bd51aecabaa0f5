"""CUDA graphs: which are captured, and for which batches.

    >>> CompilationConfig().cudagraph_mode
    <CUDAGraphMode.FULL_AND_PIECEWISE: 'FULL_AND_PIECEWISE'>

Sources: specification chapters 5.1 and 5.11; vLLM's `CompilationConfig`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dpsim.vllm.config.base import Flag, StrictModel, Tokens
from dpsim.vllm.config.modes import CUDAGraphMode


class CompilationConfig(StrictModel):
    """CUDA graphs. What a release makes of the sizes, given or not, is `dpsim.vllm.graphs.sizes`."""

    cudagraph_mode: CUDAGraphMode = CUDAGraphMode.FULL_AND_PIECEWISE
    # An empty list is what all releases make of sizes above the token budget: no graphs. So it is accepted.
    cudagraph_capture_sizes: tuple[Annotated[int, Field(gt=0, strict=True)], ...] | None = Field(
        default=None, max_length=4096
    )
    """The sizes of batches, in tokens, for which graphs are captured. Unset: the release chooses."""
    max_cudagraph_capture_size: Tokens | None = None
    """The largest batch, in tokens, for which graphs are captured. Unset: the release chooses."""
    performance_mode: Literal["balanced", "interactivity"] = "balanced"
    """Which sizes the release captures, if none are given."""
    enforce_eager: Flag = False
    """Whether no graph is captured or replayed."""
    capture_graphs: Flag = Field(
        default=False,
        description="Whether graphs are captured before the first step and replayed, or only chosen. Without a graph "
        "to choose (enforce_eager, cudagraph_mode NONE) none is captured. Not one of vLLM's names: it always captures.",
    )
    enable_sp: Flag = False
    """Sequence parallelism: a batch is cut into equal parts for the tensor-parallel ranks."""
    enable_lora: Flag = False
    """Whether requests may name an adapter (LoRA)."""
    cudagraph_specialize_lora: Flag = True
    """Whether batches with and without adapters have separate graphs."""
