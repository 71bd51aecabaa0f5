"""Settings of CUDA graphs: the modes and sizes that a rank captures, and the batches that use them.

    >>> CompilationConfig().cudagraph_mode
    <CUDAGraphMode.FULL_AND_PIECEWISE: 'FULL_AND_PIECEWISE'>

Sources: specification chapters 5.1 (modes) and 5.11 (versions); vLLM's `CompilationConfig`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dpsim.vllm.config.base import Flag, StrictModel, Tokens
from dpsim.vllm.config.modes import CUDAGraphMode


class CompilationConfig(StrictModel):
    """Settings of CUDA graphs. `dpsim.vllm.graphs.sizes` computes the sizes of a release from them."""

    cudagraph_mode: CUDAGraphMode = CUDAGraphMode.FULL_AND_PIECEWISE
    # All releases drop sizes above the token budget. An empty list has the same effect, no graphs, so it is valid.
    cudagraph_capture_sizes: tuple[Annotated[int, Field(gt=0, strict=True)], ...] | None = Field(
        default=None, max_length=4096
    )
    """The sizes of batches, in tokens, for which ranks capture graphs. Unset: the release chooses."""
    max_cudagraph_capture_size: Tokens | None = None
    """The largest batch, in tokens, for which ranks capture graphs. Unset: the release chooses."""
    performance_mode: Literal["balanced", "interactivity"] = "balanced"
    """The profile by which the release chooses sizes, if none are given."""
    enforce_eager: Flag = False
    """Whether ranks capture and replay no graph."""
    capture_graphs: Flag = Field(
        default=False,
        description="Whether ranks capture graphs before the first step and replay them, or only choose among them. "
        "Without graphs (enforce_eager, cudagraph_mode NONE) ranks capture none. The field is dpsim's: vLLM always "
        "captures.",
    )
    enable_sp: Flag = False
    """Sequence parallelism: whether tensor-parallel ranks cut a batch into equal parts."""
    enable_lora: Flag = False
    """Whether requests may name an adapter (LoRA)."""
    cudagraph_specialize_lora: Flag = True
    """Whether ranks capture separate graphs for batches with and without adapters."""
