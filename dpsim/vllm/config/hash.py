"""The hash of the parallel configuration, which engines compare at start-up because they must have equal settings.

SHA-256 over the sorted JSON of all fields except those that may differ between engines:

    >>> one, other = ParallelConfig(enable_dbo=True), ParallelConfig(enable_dbo=True, ubatch_size=3)
    >>> compute_hash(one) == compute_hash(other), differing(one, other)
    (False, ('ubatch_size',))
    >>> compute_hash(one) == compute_hash(ParallelConfig(enable_dbo=True, node_rank=1))  # may differ
    True

It leaves out graphs, scheduler, model and environment. Source: specification chapter 8.4 (hash).
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from dpsim.vllm.config.parallel import ParallelConfig


def hashed_fields(config: ParallelConfig) -> dict[str, Any]:
    """Returns the fields of the hash as JSON values; a nested field has a dotted name."""
    data = config.model_dump(mode="json", exclude=set(config.not_hashed))
    return dict(sorted(_flat(data)))


def compute_hash(config: ParallelConfig) -> str:
    """Returns the hash as 64 hexadecimal digits, equal in every process and on every machine (invariant I-CF-10)."""
    text = json.dumps(hashed_fields(config), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256(text.encode()).hexdigest()


def differing(one: ParallelConfig, other: ParallelConfig) -> tuple[str, ...]:
    """Returns the hashed fields that differ or that one of the two lacks; none exactly if the hashes are equal."""
    first, second = hashed_fields(one), hashed_fields(other)
    missing = object()
    names = sorted(first.keys() | second.keys())
    return tuple(name for name in names if first.get(name, missing) != second.get(name, missing))


def _flat(data: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in data.items():
        found += _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else [(f"{prefix}{name}", value)]
    return found
