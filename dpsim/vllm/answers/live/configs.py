"""Asks which configurations have equal hashes.

Of 0.17 and 0.24 dpsim has no configuration of its own: 0.17 takes eplb_config.use_async back with two all-to-all
backends, and 0.24 has it by default.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from dpsim.vllm.answers.comparison import Row
from dpsim.vllm.answers.config import AROUND
from dpsim.vllm.answers.live.installed import function


def config_hash(row: Row) -> Row | None:
    """0.14 and 0.33. None where this machine refuses one of the two, which it may for its devices alone."""
    parallel_config = function("vllm.config.parallel", "ParallelConfig")
    try:
        with surroundings():
            first, second = (parallel_config(**row[which]).compute_hash() for which in ("first", "second"))
    except ValueError:
        return None
    return {"answer": {"hash_equal": first == second}}


@contextmanager
def surroundings() -> Iterator[None]:
    """The environment that the questions take for granted: an external launcher tells a process its number there."""
    before = dict(os.environ)
    os.environ.update(AROUND.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
