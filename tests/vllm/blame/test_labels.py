"""Tests how a label grades a report: right, first seen, both sides, undecided or other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpsim.checks.finding import Culprit, Finding, Part
from dpsim.contract.world import World
from tests.vllm.blame.labels import Label, labels

WORLD = World(2, (), services=("engine.0",))
LABEL = Label((1,), ((0,), (1,)), ("engine.0",), ("dp.*",), "rank 1 leaves it out")
FOUND = Finding("ledger", "HANG", "rank 1 left out dp.agree in step 0; rank 0 made it", None, (0, 0))


def blaming(*ranks: int, message: Part = FOUND.message) -> Finding:
    culprit = Culprit(ranks[0], 0, "end", "", ranks=ranks if len(ranks) > 1 else ()) if ranks else None
    return replace(FOUND, culprit=culprit, message=message)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (blaming(1), "right"),
        (blaming(0), "other"),
        (blaming(0, 1), "other"),
        (blaming(2), "first seen"),
        (blaming(1, 2), "other"),
        (blaming(), "both sides"),
        (blaming(message="ranks 0, 1 differ"), "both sides"),
        (blaming(message="ranks 0, 12 differ, and rank 10"), "undecided"),
        (None, "undecided"),
    ],
)
def test_a_label_judges_the_blamed_rank(found: Finding | None, says: str) -> None:
    assert LABEL.says(WORLD, found) == says


def test_a_label_without_sides_wants_a_culprit() -> None:
    assert LABEL._replace(sides=()).says(WORLD, blaming()) == "undecided"


@pytest.mark.parametrize(("ranks", "says"), [((0, 1), "right"), ((0,), "other")])
def test_each_rank_is_every_rank_of_the_world(ranks: tuple[int, ...], says: str) -> None:
    assert LABEL._replace(ranks=None).says(WORLD, blaming(*ranks)) == says


@pytest.mark.parametrize(
    ("message", "sites", "named"),
    [
        ("rank 1 left out dp.agree[0]", ("dp.*",), True),
        ("rank 1 left out ep.agree", ("dp.*",), False),
        ("rank 1 left out it", ("end",), True),  # the site of the culprit
    ],
)
def test_a_label_judges_the_named_site(message: str, sites: tuple[str, ...], named: bool) -> None:
    assert LABEL._replace(sites=sites).site(blaming(1, message=message)) == named


def test_labels_are_short_and_complete() -> None:
    assert labels()
    assert all(label.sites and label.why and len(label.why.split()) <= 12 for label in labels().values())
