"""Tests the reports of the museum: all name the class, 95 % rank and site, and all an expected culprit."""

from __future__ import annotations

import pytest

from dpsim.campaign.museum import exhibits
from dpsim.contract import registry
from dpsim.contract.world import World
from dpsim.scenario import load_scenario
from tests.vllm.blame.labels import labels
from tests.vllm.blame.museum import _rank, all_shown, figures

NOT_RIGHT = {"M-EL-3", "M-EL-11-subset", "M-PS-3"}
"""Exhibits whose reports accuse another actor, or none. Remove an exhibit here if a change repairs its report."""


@pytest.mark.slow
def test_each_exhibit_names_its_class_and_its_culprit() -> None:
    rows = list(all_shown([]))
    print("\n".join(figures(rows)))
    assert len(rows) > 200
    assert {row.entry.name for row in rows} == {*labels()}
    assert {row.entry.name for row in rows if not row.good} == NOT_RIGHT
    assert sum(row.good for row in rows) >= 0.95 * len(rows)
    assert [row.line() for row in rows if not row.klass] == []
    assert [row.line() for row in rows if row.rank is False] == []
    assert sum(row.rank is True for row in rows) >= 40


@pytest.mark.parametrize(("name", "place"), [("M-DP-1", "-"), ("pp-captured-recv", "culprit"), ("M-CG-6", "message")])
def test_some_exhibits_name_their_class_and_culprit(name: str, place: str) -> None:
    [row] = all_shown([name])
    assert (row.klass, row.place) == (True, place)


def test_another_culprit_is_wrong() -> None:
    """Faulty twin: the finding of one exhibit does not match the expected culprit of another."""
    [row] = all_shown(["M-DP-1"])
    other = load_scenario(exhibits()["m-dp-1"]).model_copy(
        update={"expect": load_scenario(exhibits()["m-dp-2"]).expect}
    )
    assert registry.variant("M-DP-2").expected is not None
    assert row.rank
    assert _rank(other, row.found) is not True


def test_the_label_of_another_exhibit_is_wrong() -> None:
    """Faulty twin: the label of M-DP-1, where one rank leaves out its step, does not match a report on three ranks."""
    [row] = all_shown(["M-ES-4"])
    assert row.found is not None
    label, world = labels()["M-DP-1"], World(3, ())
    assert row.good
    assert (label.says(world, row.found), label.site(row.found)) == ("other", True)


def test_a_service_that_sent_other_wakes_is_named() -> None:
    """The coordinator keeps the wake of engine 0, and a front end sent the last one. Without its name, the report has
    only the front end, which made no mistake.
    """
    [row] = all_shown(["coord-latch"])
    assert row.good
