"""Microbatching: who may split a batch, and how it is cut (specification chapter 3).

Splitting a step's batch into U microbatches lets one half compute while the other communicates. It decides the
*number and sizes* of the expert collectives, U a layer instead of 1, so either every rank splits or none does.
Three pure functions:

    >>> config = ParallelConfig(enable_dbo=True)
    >>> wants_microbatching(40, True, config), wants_microbatching(40, False, config)  # 40 decodes; a prefill of 40
    (True, False)
    >>> last_microbatch_empty(32, 64, 2)  # 32 real tokens padded to 64: the second half would hold padding only
    True
    >>> slice_sizes(101, 2)
    (50, 51)
"""

from __future__ import annotations

from dpsim.config import ParallelConfig


def wants_microbatching(num_tokens: int, uniform_decode: bool, config: ParallelConfig) -> bool:
    """One rank's wish, from its own unpadded token count: at least the threshold of its kind of batch (3.2)."""
    threshold = config.dbo_decode_token_threshold if uniform_decode else config.dbo_prefill_token_threshold
    return config.use_ubatching and num_tokens >= threshold


def last_microbatch_empty(num_tokens: int, num_tokens_padded: int, num_ubatches: int) -> bool:
    """Whether cutting `num_tokens_padded` into equal parts leaves no real token for the last one (1.5, step 4)."""
    return num_tokens_padded // num_ubatches * (num_ubatches - 1) >= num_tokens


def slice_sizes(num_tokens_padded: int, num_ubatches: int) -> tuple[int, ...]:
    """Tokens of each microbatch: equal parts, the remainder in the last. A function of its arguments only, so equal
    on all ranks (I-UB-2).
    """
    part = num_tokens_padded // num_ubatches
    return (*[part] * (num_ubatches - 1), num_tokens_padded - part * (num_ubatches - 1))
