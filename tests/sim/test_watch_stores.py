"""Tests loops that get a key of a store which no rank sets. They are livelocks, like loops that poll for a message."""

from __future__ import annotations

import itertools

import pytest

from dpsim.backend.journal import repetition
from dpsim.contract.interface import Rank
from dpsim.contract.ops import KIND
from dpsim.sim.hosts import watch
from tests.programs import Script, world_of
from tests.sim.test_watch import found, livelock

WORLD = world_of(2, nodes=[0, 0])


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowers the bounds, so that the tests are fast."""
    monkeypatch.setattr(watch, "REPEATS", 5_000)
    monkeypatch.setattr(watch, "ASKS", 300)


async def looks(rank: Rank) -> None:
    """Rank 1 gets a key without waiting, again and again. Rank 0 never sets it."""
    if rank.rank == 0:
        await rank.open_store(29500, "open")
        return
    store = await rank.join_store(0, 29500, "join")
    assert store is not None
    while await store.get("ready", "look", timeout_ns=0) is None:
        pass


async def looks_for_another(rank: Rank) -> None:
    """Rank 1 waits for another value of a key, which never changes."""
    if rank.rank == 0:
        own = await rank.open_store(29500, "open")
        assert own is not None
        own.set("state", "starting", "set")
        return
    store = await rank.join_store(0, 29500, "join")
    assert store is not None
    while await store.get("state", "look", timeout_ns=0) != "ready":
        await rank.sleep(1_000, "nap")


async def adds(rank: Rank) -> None:
    """The faulty twin: the rank adds to a key of the store in each round, for a limited number of rounds."""
    if rank.rank == 0:
        await rank.open_store(29500, "open")
        return
    store = await rank.join_store(0, 29500, "join")
    assert store is not None
    for _ in range(400):
        await store.add("rounds", 1, "count")
        await store.get("ready", "look", timeout_ns=0)


async def is_set_late(rank: Rank) -> None:
    """Rank 0 works for many steps before it sets the key."""
    if rank.rank == 0:
        own = await rank.open_store(29500, "open")
        assert own is not None
        for number in itertools.count():
            await rank.sleep(1_000, "work")
            if number == 50:
                own.set("ready", 1, "set")
                return
    store = await rank.join_store(0, 29500, "join")
    assert store is not None
    while await store.get("ready", "look", timeout_ns=0) is None:
        await rank.sleep(1_000, "nap")


@pytest.mark.parametrize("script", [looks, looks_for_another])
@pytest.mark.parametrize("timed", [True, False])
def test_a_poll_for_a_key_that_no_rank_sets_is_a_livelock(script: Script, timed: bool) -> None:
    finding = livelock(script, WORLD, timed)
    assert finding.klass == "LIVELOCK:POLL"
    assert finding.culprit is not None
    assert (finding.culprit.rank, finding.culprit.site) == (1, "look")


@pytest.mark.parametrize("script", [adds, is_set_late])
def test_changes_of_a_store_are_progress(script: Script) -> None:
    assert not found(script, WORLD)


def test_a_twin_that_counts_no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal of gets with time-out 0 is a repetition; a set, and a get that waits, are progress. The faulty twin
    does not count calls of stores, so it takes the gets for progress.
    """
    get = ("store", 1, "main", "look", 0, "a.py:1", 0, 29500, "get", "ready", 0)
    learned = ("learned", 1, "main", "look", 0, "a.py:1", None)
    assert repetition.repeating([[], [get, learned] * 1_000]) == (1,)
    for changed in ((*get[:8], "set", "ready", 0), (*get[:8], "get", "ready", None)):
        assert repetition.repeating([[], [changed, learned] * 1_000]) == ()
    counted = repetition.Repetition._repeats
    monkeypatch.setattr(
        repetition.Repetition, "_repeats", lambda self, raw: raw[KIND] != "store" and counted(self, raw)
    )
    assert repetition.repeating([[], [get, learned] * 1_000]) == ()
