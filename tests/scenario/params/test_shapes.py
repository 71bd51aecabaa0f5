"""Tests of the shapes of field values: their descriptions, and that the model accepts the drawn values."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsim.scenario.params.per_rank import PerRank
from dpsim.scenario.params.shapes import Choice, Each, Either, Many, Number, Other, described, fields
from dpsim.testing.models import params
from tests.scenario.params.protocols import Everything, Request, Sizes


def test_each_kind_of_field_has_its_shape() -> None:
    found = fields(Everything)
    assert found["flag"] == Choice((False, True))
    assert found["word"] == Choice(("a", "b"))
    assert found["mode"] == Choice(("eager", "graph"))
    assert found["even"] == Number(0, 6, 2)
    assert found["maybe"] == Either((Number(), Choice((None,))))
    assert found["slots"] == Many(Number(), 0, 3)
    assert found["pair"] == Many(Number())
    assert found["work"].item.model is Request  # type: ignore[union-attr]
    assert found["first"].defaults() == {"tokens": 1, "mode": "eager"}  # type: ignore[union-attr]
    assert all(isinstance(found[name], Other) for name in ("fraction", "text", "table"))
    assert found["most"] == Number(0, 9)
    assert fields(Sizes)["seen"] == Each(Number(0, 3))


def test_described_prints_the_bounds_of_each_field() -> None:
    assert described(Sizes) == {"ranks": "1 to 8 (2)", "steps": "1 to 10", "seen": "of each rank 0 to 3 (0)"}
    assert described(Everything)["work"] == "a list of {tokens, mode} ([])"


@pytest.mark.slow
@settings(deadline=None)
@given(params(Everything))
def test_the_model_accepts_every_drawn_value(drawn: dict[str, object]) -> None:
    Everything.model_validate(drawn)


@given(st.data())
def test_single_fields_are_replaced(data: st.DataObject) -> None:
    drawn = data.draw(params(Sizes, {"steps": st.just(7)}))
    assert drawn["steps"] == 7
    assert Sizes.model_validate(drawn).seen == PerRank(0) or "seen" in drawn
