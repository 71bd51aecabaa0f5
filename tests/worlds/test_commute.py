"""Tests that ops whose footprints do not conflict commute, in all cases, and that `complaints` finds a missing
resource.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpsim.contract.schedule import Footprint
from dpsim.sim.graph.op import Op
from tests.properties import every, slow_but
from tests.worlds.brute import enumerate_schedules
from tests.worlds.cases import CASES, COUNTED
from tests.worlds.commute import complaints


@pytest.mark.parametrize("name", slow_but(CASES, every(2, CASES).__contains__))
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


@pytest.mark.parametrize(
    ("resource", "name", "classes"),
    [(("mailbox", 0, "work", 0), "dp_wave_skip 2x1", 2), (("mailbox", 0, "in"), "wake_pause 2x1", 1)],
)
def test_schedules_of_one_class_that_differ_are_found(
    resource: tuple[Any, ...], name: str, classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removes one resource from all footprints. Brute force then finds classes with more than one outcome.

    The second resource is that of deliveries of two senders. Without it, two deliveries do not conflict as they fire,
    though they conflict in each state that offers both. So commuting two offered ops does not show the mistake.
    """
    monkeypatch.setattr(Op, "touches", _without(resource, Op.touches))
    found = enumerate_schedules(CASES[name])
    assert found.torn
    assert found.row == (COUNTED[name][0], classes, *COUNTED[name][2:]), (
        "only the number of classes depends on the footprint"
    )


def _without(dropped: Any, touches: Callable[[Op], Footprint]) -> Callable[[Op], Footprint]:
    """Returns footprints without one resource or one kind of resource."""
    return lambda op: tuple(use for use in touches(op) if dropped not in (use[0], use[0][0]))
