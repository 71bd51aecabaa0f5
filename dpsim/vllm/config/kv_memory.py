"""The agreement on KV cache memory when an elastic engine adds ranks: all ranks use the smallest size of any rank.

A rank that joins a running engine has not measured its memory, and sends -1. The other ranks must ignore this number,
although it is smaller than every size:

    >>> reduced([offer(size) for size in (-1, 1001, 1002)])
    1001

The collective is one all-reduce MIN of int64[1]. Source: specification chapter 8.5 (cache memory).
"""

from __future__ import annotations

from collections.abc import Sequence

UNKNOWN = -1
LARGEST = (1 << 63) - 1


def offer(size: int) -> int:
    """Returns a rank's input to the all-reduce: its bytes, or the largest int64 for a rank that accepts any size."""
    return LARGEST if size == UNKNOWN else size


def reduced(offers: Sequence[int]) -> int:
    """Returns the result of the all-reduce, in bytes."""
    return min(offers)


def sync_kv_cache_memory_size(sizes: Sequence[int]) -> int:
    """The bytes on which all ranks agree; the largest int64 if none has measured (invariant I-CF-5)."""
    return reduced([offer(size) for size in sizes])
