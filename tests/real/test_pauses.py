"""Tests the drawn pauses of a rank: they depend on the seed and the address, and other threads go on meanwhile."""

from __future__ import annotations

import threading
from dataclasses import replace

from real.pauses import MOST_NS, Pauses, pauses_of
from tests.programs import world_of

WORLD = world_of(1)


def test_a_world_without_a_seed_has_no_pauses() -> None:
    assert pauses_of(WORLD, 0) is None
    assert pauses_of(replace(WORLD, pauses=0), 3) == Pauses(0, 3)


def test_pauses_depend_on_seed_and_address_alone() -> None:
    addresses = [
        (seed, rank, thread, site, ordinal)
        for seed in (0, 1)
        for rank in (0, 1)
        for thread in ("main", "u")
        for site in ("a", "b")
        for ordinal in (0, 1)
    ]
    drawn = [Pauses(seed, rank).ns(*rest) for seed, rank, *rest in addresses]  # type: ignore[arg-type]
    assert drawn == [Pauses(seed, rank).ns(*rest) for seed, rank, *rest in addresses]  # type: ignore[arg-type]
    assert len({*drawn}) == len(addresses)
    assert all(0 <= ns < MOST_NS for ns in drawn)
    assert max(drawn) - min(drawn) > MOST_NS / 2


def test_another_thread_takes_the_lock_during_a_pause() -> None:
    """Without the release, the thread would wait for the end of the block."""
    lock, taken = threading.RLock(), threading.Event()

    def take() -> None:
        with lock:
            taken.set()

    other = threading.Thread(target=take)
    with lock, lock:
        other.start()
        for ordinal in range(2_000):
            Pauses(0, 0).release(lock, "main", "a", ordinal)
            if taken.is_set():
                break
        assert taken.is_set()
    other.join()
