"""Limits of a rank's scheduler for one step, and whether it runs ahead of the device.

    >>> SchedulerConfig(num_speculative_tokens=2).uniform_decode_query_len
    3

Source: vLLM's `SchedulerConfig`, and the part of its speculative configuration that the scheduler needs.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dpsim.vllm.config.base import Flag, StrictModel, Tokens


class SchedulerConfig(StrictModel):
    """Limits of a rank's scheduler for one step."""

    async_scheduling: Flag = False
    """Whether the scheduler plans a step before the tokens of the last step are known."""
    max_num_seqs: Tokens = 128
    """Requests that a rank may run in one step."""
    max_num_batched_tokens: Tokens = 8192
    """Tokens that a rank may run in one step."""
    num_speculative_tokens: Annotated[int, Field(ge=0, le=64, strict=True)] = 0
    """Draft tokens that a decoding request brings into a step; 0 is none."""
    speculative_method: Literal["ngram", "mtp"] = "ngram"
    """The proposer of tokens: ngram, the host, or mtp, layers of a model with separate experts."""
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
