"""The KV cache of a rank: the size of a block in tokens, and the number of blocks.

    >>> CacheConfig(block_size=16).blocks(17)
    2

Source: vLLM's `CacheConfig`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dpsim.vllm.config.base import StrictModel, Tokens


class CacheConfig(StrictModel):
    """The KV cache of a rank. If `num_gpu_blocks_override` is unset, the cache is never too small."""

    block_size: Annotated[int, Field(ge=1, le=1024, strict=True)] = 16
    """The number of tokens of one block of the KV cache."""
    num_gpu_blocks_override: Tokens | None = None
    """The number of blocks of a rank's KV cache. Unset: the cache is never too small."""

    def blocks(self, tokens: int) -> int:
        """Returns the number of blocks for this number of tokens of one request."""
        return -(-tokens // self.block_size)
