"""Ops that do not conflict commute, in all worlds; and where a footprint leaves something out, that is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from worlds.brute import enumerate_schedules
from worlds.cases import CASES
from worlds.commute import complaints

from dpsim.schedule import Footprint
from dpsim.sim.machine import Op

pytestmark = pytest.mark.runs_once


@pytest.mark.parametrize("name", CASES)
def test_ops_that_do_not_conflict_commute(name: str) -> None:
    for seed in range(3):
        assert complaints(CASES[name], seed) == []


@pytest.mark.parametrize(
    ("dropped", "name"),
    [
        ("mailbox", "dp_wave_skip 2x2"),
        ("life", "kill host 2x4"),
        ("life", "kill device 2x4"),
        ("slots", "residency 2 ranks 1 slots 2 streams"),
        ("memory", "dbo_event_order 1x2 memory bug"),
        ("event", "event_query 3"),
    ],
)
def test_a_footprint_that_leaves_something_out_is_found(
    dropped: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Op, "touches", _without(dropped, Op.touches))
    assert any(complaints(CASES[name], seed) for seed in range(8))


def test_where_two_schedules_of_one_class_differ_that_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for what brute force sees: polls and deliveries that do not conflict."""
    monkeypatch.setattr(Op, "touches", _without("mailbox", Op.touches))
    found = enumerate_schedules(CASES["dp_wave_skip 2x1"])
    assert found.torn
    assert (found.schedules, len(found.classes), len(found.outcomes)) == (24, 1, 4), "outcomes need no footprints"


def _without(dropped: str, touches: Callable[[Op], Footprint]) -> Callable[[Op], Footprint]:
    return lambda op: tuple(use for use in touches(op) if use[0][0] != dropped)
