"""Asks which configurations have equal hashes."""

from __future__ import annotations

from dpsim.testing.engine.comparison import Row
from dpsim.testing.engine.live.installed import function


def config_hash(row: Row) -> Row | None:
    """0.14 to 0.33. None where this machine refuses one of the two, which it may for its devices alone."""
    parallel_config = function("vllm.config.parallel", "ParallelConfig")
    try:
        first, second = (parallel_config(**row[which]).compute_hash() for which in ("first", "second"))
    except ValueError:
        return None
    return {"answer": {"hash_equal": first == second}}


__all__ = ["config_hash"]
