"""Tests that the conformance case that runs `dp_batch` catches faulty twins of a backend."""

from __future__ import annotations

import pytest

from dpsim.testing import check_backend
from tests.testing.test_check_backend import DropsADecision, KeepsNoEnd, Twin

TWINS = [
    (DropsADecision, r"of rank 1: expected plan\[0\].*got dp.padded_further\[0\]"),
    (KeepsNoEnd, "rank 0 ended as finished, but its journal records no end"),
]


@pytest.mark.parametrize(("twin", "message"), TWINS)
def test_a_faulty_twin_is_caught(twin: type[Twin], message: str) -> None:
    with pytest.raises(AssertionError, match=f"(?s)^backend twin, case agreement: .*{message}.*the rule: "):
        check_backend(twin(), only="agreement")
