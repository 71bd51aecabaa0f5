"""A set of worlds: its progress counts each finished world."""

from __future__ import annotations

import pytest

from dpsim.campaign.files import Options
from dpsim.campaign.in_order import InOrder
from dpsim.campaign.whole import explore_whole
from dpsim.scenario import Scenario, scenario_from
from tests.cli import protocols  # noqa: F401  # registers t_look


def looks(*ranks: int) -> list[Scenario]:
    return [
        scenario_from({"name": "looks", "protocol": {"name": "t_look", "params": {"ranks": number}}})
        for number in ranks
    ]


def counted_worlds(options: Options) -> list[int]:
    """Explores three worlds, and returns the different numbers of worlds that a progress display gets."""
    seen: list[int] = []
    explore_whole(looks(1, 1, 2), 3, options, lambda done, total: seen.append(done))
    return [*dict.fromkeys(seen)]


@pytest.mark.parametrize("options", [Options("dpor"), Options("dpor", schedules=1), Options("pos", schedules=3)])
def test_each_finished_world_counts(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    """Worlds whose limit ended them are finished, too. The twin sees a world as finished only if it is proven."""
    assert counted_worlds(options) == [0, 1, 2, 3]
    monkeypatch.setattr(InOrder, "finished", property(lambda units: units.plan.done))
    assert (counted_worlds(options) == [0, 1, 2, 3]) == (options == Options("dpor"))
