"""What reports of the museum name: the class in all, and the culprit where an exhibit says one."""

from __future__ import annotations

import pytest

from dpsim.campaign.museum import exhibits
from dpsim.contract import registry
from dpsim.scenario import load_scenario
from tests.vllm.blame.museum import _rank, all_shown


@pytest.mark.slow
def test_each_exhibit_names_its_class_and_its_culprit() -> None:
    rows = list(all_shown([]))
    assert len(rows) > 200
    assert [row.line() for row in rows if not row.klass] == []
    assert [row.line() for row in rows if row.rank is False] == []
    assert sum(row.rank is True for row in rows) >= 40


@pytest.mark.parametrize(("name", "place"), [("M-DP-1", "-"), ("pp-captured-recv", "culprit"), ("M-CG-6", "message")])
def test_some_exhibits(name: str, place: str) -> None:
    [row] = all_shown([name])
    assert (row.klass, row.place) == (True, place)


def test_another_culprit_is_wrong() -> None:
    """The twin: the finding of one exhibit, and the culprit of another one."""
    [row] = all_shown(["M-DP-1"])
    other = load_scenario(exhibits()["m-dp-1"]).model_copy(
        update={"expect": load_scenario(exhibits()["m-dp-2"]).expect}
    )
    assert registry.variant("M-DP-2").expected is not None
    assert row.rank
    assert _rank(other, row.found) is not True
