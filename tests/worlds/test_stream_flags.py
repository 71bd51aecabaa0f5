"""Tests that DPOR sees all outcomes that brute force sees of programs whose streams wait for flags."""

from __future__ import annotations

import pytest

from dpsim.sim.calls.flags import FlagWord
from dpsim.sim.hosts.chain import Chain
from tests.worlds.brute import enumerate_schedules
from tests.worlds.explored import explored, missed
from tests.worlds.stream_flags import one_host, two_threads

MISSES = 0
"""A seed of `one_host` whose stream may poll the flag only after the last clear, so that it misses the set."""


@pytest.mark.parametrize("seed", range(25))
def test_explore_misses_no_outcome_of_one_host(seed: int) -> None:
    assert missed(one_host(seed)) == (0, 0, 0)


@pytest.mark.parametrize("seed", [6, 7, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (12, 23))])
def test_explore_misses_no_outcome_of_two_threads(seed: int) -> None:
    assert missed(two_threads(seed)) == (0, 0, 0)


def test_a_stream_that_comes_late_may_miss_a_set() -> None:
    found = enumerate_schedules(one_host(MISSES))
    assert (found.schedules, found.failing) == (3, 1)
    assert [klass for classes in found.outcomes.values() for klass in classes] == ["HANG:FLAG:CLEARED"]


def test_a_look_conflicts_with_a_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin: a stream's poll of a flag does not conflict with a clear, so DPOR misses outcomes."""
    holds = FlagWord.hold

    def alone(self: FlagWord, chain: Chain) -> None:
        shared, self.resource = self.resource, ("alone", *self.resource)  # type: ignore[assignment]  # of another form than theirs
        holds(self, chain)
        self.resource = shared

    monkeypatch.setattr(FlagWord, "hold", alone)
    assert len(explored(one_host(MISSES))[1]) < len(enumerate_schedules(one_host(MISSES)).outcomes)
