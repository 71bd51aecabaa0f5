"""Tests that a work folder gives back all results and heads that were written into it.

The results have all classes of state that a search has, each field by its type. So a new class that `PLAIN` lacks, and
with which no unit would be kept, fails the test.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dpsim.campaign.units import Unit, UnitResult
from dpsim.campaign.work import WorkFolder, packed, unpacked
from dpsim.explore import Exploration, Problem
from dpsim.explore.strategies.frontier import WithinDone, WithinState
from dpsim.explore.strategies.places import DporState, ToTurn
from tests.every_value import ANY_TEXTS, JSON, KNOWN, PLAIN, every

KNOWN_HERE = KNOWN | {Hashable: PLAIN}
PROBLEMS = every(Problem, KNOWN_HERE, evidence=st.none())
PLAIN_KNOWN = KNOWN_HERE | {Problem: PROBLEMS}
STATES = st.one_of([st.none(), *(every(one, PLAIN_KNOWN) for one in (DporState, WithinState, WithinDone))])
RESULTS = every(
    UnitResult,
    PLAIN_KNOWN
    | {Exploration: every(Exploration, PLAIN_KNOWN, outcomes=st.none()), Unit: every(Unit, PLAIN_KNOWN, state=STATES)},
    state=STATES,
    asked=every(Sequence[ToTurn], PLAIN_KNOWN),
)
"""All results that a folder keeps: it keeps no run that is the evidence of a problem, and `--against` has no folder."""


@settings(max_examples=15)
@given(RESULTS)
def test_a_result_is_read_as_it_was_written(result: UnitResult) -> None:
    data = packed(result)
    assert data is not None
    assert unpacked(data) == result


@settings(max_examples=15)
@given(st.dictionaries(ANY_TEXTS, JSON, max_size=3))
def test_a_folder_resumes_the_exploration_of_its_head(head: dict[str, Any]) -> None:
    with TemporaryDirectory() as folder:
        WorkFolder.begin(Path(folder), head).__exit__(None, None, None)
        WorkFolder.resume(Path(folder), head).__exit__(None, None, None)
