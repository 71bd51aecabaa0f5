"""The limits of a rank's scheduler for one step, and whether the scheduler runs ahead of the device.

    >>> SchedulerConfig(num_speculative_tokens=2).uniform_decode_query_len
    3

Source: vLLM's `SchedulerConfig`, and the part of its speculative configuration that the scheduler needs.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dpsim.vllm.config.base import Flag, StrictModel, Tokens


class SchedulerConfig(StrictModel):
    """The limits of a rank's scheduler for one step."""

    async_scheduling: Flag = False
    """Whether the scheduler plans a step before it has the tokens of the previous step."""
    max_num_seqs: Tokens = 128
    """The largest number of requests that a rank runs in one step."""
    max_num_batched_tokens: Tokens = 8192
    """The largest number of tokens that a rank runs in one step."""
    num_speculative_tokens: Annotated[int, Field(ge=0, le=64, strict=True)] = 0
    """The number of draft tokens of a decoding request in a step; 0: no drafts."""
    speculative_method: Literal["ngram", "mtp"] = "ngram"
    """The source of draft tokens: ngram (the host) or mtp (additional model layers with separate experts)."""
    speculative_max_model_len: Tokens | None = None
    """The longest sequence for which those layers propose drafts. Unset: no limit."""

    @property
    def uniform_decode_query_len(self) -> int:
        """q, the number of tokens of a decoding request in a step: one, and its draft tokens."""
        return 1 + self.num_speculative_tokens

    @property
    def has_drafter(self) -> bool:
        """Whether a model proposes draft tokens, so that all ranks have to run its layers."""
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
