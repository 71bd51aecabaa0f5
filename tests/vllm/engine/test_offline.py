"""Tests of engines that a batch job steps (specification 2.8): all run equally many forwards and stop together."""

from __future__ import annotations

from itertools import product
from typing import Literal

import pytest

from dpsim.vllm.engine.batch_job import OfflineEngine
from dpsim.vllm.engine.finish_sync import Numbers


def run(kinds: list[type[OfflineEngine]], work: tuple[int, ...]) -> list[list[str]]:
    """Returns what each rank ran. `work` has the steps of each rank. Raises AssertionError if the ranks do not stop
    together.
    """
    engines, left = [kind() for kind in kinds], list(work)
    ran: list[list[str]] = [[] for _ in engines]
    for _ in range(sum(work) + 2):
        told = [engine.contribution(steps > 0) for engine, steps in zip(engines, left, strict=True)]
        goes_on = [engine.reduced(max(told), steps > 0) for engine, steps in zip(engines, left, strict=True)]
        assert len(set(goes_on)) == 1, "ranks disagree: one stops, others wait in their forward"
        if not goes_on[0]:
            break
        for rank, engine in enumerate(engines):
            ran[rank].append(engine.step())
            assert ran[rank][-1] == "dummy" or left[rank], "a step without work and without a dummy batch"
            left[rank] -= ran[rank][-1] == "model"
    assert not any(left), "work is left"
    return ran


LOADS = [work for size in (2, 3) for work in product(range(4), repeat=size)]


def test_all_small_loads() -> None:
    """Every rank runs as many forwards as the busiest rank has steps, and begins with its own."""
    for work in LOADS:
        most = max(work)
        expected = [["model"] * steps + ["dummy"] * (most - steps) for steps in work]
        assert run([OfflineEngine] * len(work), work) == expected


def test_a_request_after_the_reduction_runs_behind_one_dummy() -> None:
    """A request that arrives after the reduction waits for one dummy, and then runs; the faulty twin never runs it."""
    ran = {}
    for kind in (OfflineEngine, OnlyDummies):
        engine = kind()
        assert engine.reduced((1,), unfinished=False)
        ran[kind] = [engine.step(), engine.step()]
    assert ran == {OfflineEngine: ["dummy", "model"], OnlyDummies: ["dummy", "dummy"]}


class OwnAnswer(OfflineEngine):
    """Mutant M-EL-6: an engine continues only if it has work itself."""

    def reduced(self, total: Numbers, unfinished: bool) -> bool:
        super().reduced(total, unfinished)
        return unfinished


class NoDummies(OfflineEngine):
    """Mutant M-EL-1: an engine never runs a dummy."""

    def step(self) -> Literal["dummy", "model"]:
        return "model"


class OnlyDummies(OfflineEngine):
    """An engine that had to run a dummy runs dummies in all later steps."""

    def step(self) -> Literal["dummy", "model"]:
        return "dummy" if self.should_execute_dummy_batch else "model"


@pytest.mark.parametrize(("twin", "said"), [(OwnAnswer, "one stops"), (NoDummies, "a step without work")])
def test_a_twin_is_found(twin: type[OfflineEngine], said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        run([OfflineEngine, twin], (2, 1))
