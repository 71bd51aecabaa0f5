"""Tests how a row of the tables is filled with the values of a fact."""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.checks.finding import also, fact, left_out
from dpsim.contract.ops import as_record
from dpsim.diagnose.words import sentences, text
from tests.records import all_reduce

CALL = as_record(all_reduce("agree", "dp", 0))


@pytest.mark.parametrize(
    ("row", "values", "said"),
    [
        ("{ranks:ranks} {ranks:one waits|wait}", {"ranks": (0, 2)}, "ranks 0, 2 wait"),
        ("{ranks:ranks} {ranks:one waits|wait}", {"ranks": (1,)}, "rank 1 waits"),
        ("{number:count class|classes}", {"number": 2_000}, "2,000 classes"),
        ("called {number:times}", {"number": 2}, "called twice"),
        ("{where:if  at *}.", {"where": ""}, "."),
        ("{step:if  in step *}.", {"step": 0}, " in step 0."),
        ("{alone:if it|they}", {"alone": False}, "they"),
        ("{sides:join ; }", {"sides": ("a", fact("died", rank=1, step=5))}, "a; rank 1 died in step 5"),
        ("{call.site} ({call})", {"call": CALL}, "agree (all_reduce int32[8] on dp #0)"),
        ("{message}", {"message": "{rank} * {0}"}, "{rank} * {0}"),
        ("{message:if <*>}", {"message": "a*b"}, "<a*b>"),
    ],
)
def test_a_row_is_filled(row: str, values: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sentences.SENTENCES, "made", row)
    assert text(fact("made", **values)) == said


def test_each_part_that_is_joined_is_short_on_a_first_screen() -> None:
    """A report once printed the ways twice, because a setting was joined to the finding."""
    differ = fact("calls_differ", step=0, sites=("a",), ways=(fact("side", ranks=(0,), step=None, calls=("x",)),))
    whole = also(differ, fact("alone_has", ranks=(1,), setting="env X=1"))
    assert "rank 0: x" in text(whole)
    assert text(whole, short=True).endswith("which are right; rank 1 alone has env X=1")


def test_a_part_without_facts_stays_a_text() -> None:
    assert also("a", "", also("b", "c")) == "a; b; c"
    assert text(also(left_out((1,), "agree", 3), "so")) == "rank 1 left out agree in step 3; so"
