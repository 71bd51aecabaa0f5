"""Tests a rank that listens and sets a key of its store. Its get may come before the value arrives; its add comes after
it.
"""

from __future__ import annotations

from dpsim.contract.interface import Rank
from tests.programs import explored
from tests.sim.programs import usual_world


async def adds(rank: Rank) -> None:
    store = await rank.open_store(1 + rank.rank, "open")
    assert store is not None
    store.set("key", 7, "set")
    assert await store.add("key", 1, "add") == 8


async def gets(rank: Rank) -> None:
    """The faulty twin: it expects the same order from get."""
    store = await rank.open_store(1 + rank.rank, "open")
    assert store is not None
    store.set("key", 7, "set")
    assert await store.get("key", "get", timeout_ns=0) == 7


def test_add_comes_after_the_own_set() -> None:
    assert explored(usual_world(1), adds).verdict == "proven"


def test_get_may_come_before_the_own_set() -> None:
    assert explored(usual_world(1), gets).verdict == "violated"
