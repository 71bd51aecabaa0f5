"""How much memory all ranks give to their KV caches when ranks are added: what the smallest has.

A new rank knows nothing yet and sends -1, which has to lose against every size:

    >>> reduced([offer(size) for size in (-1, 1001, 1002)])
    1001

The collective is one all-reduce MIN of int64[1]; this module has its offers and its result, without the call.
Source: specification chapter 8.5.
"""

from __future__ import annotations

from collections.abc import Sequence

UNKNOWN = -1
LARGEST = (1 << 63) - 1


def offer(size: int) -> int:
    """What a rank puts into the all-reduce: its bytes, or the largest int64 for a rank that takes any size."""
    return LARGEST if size == UNKNOWN else size


def reduced(offers: Sequence[int]) -> int:
    """What the all-reduce returns on every rank."""
    return min(offers)


def sync_kv_cache_memory_size(sizes: Sequence[int]) -> int:
    """The bytes that all ranks agree on, from those of each; the largest int64 if no rank knows any (I-CF-5)."""
    return reduced([offer(size) for size in sizes])
