"""Tests how sure the explanation of a run is: a conclusion from other ranks or steps is not a fact of the trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpsim.checks.judge import judge
from dpsim.contract.interface import Rank
from dpsim.contract.world import At, Fault
from dpsim.diagnose.dumps.explanation import Explanation
from dpsim.diagnose.dumps.of_run import explained
from dpsim.diagnose.dumps.text import as_text
from tests.programs import run, world_of


async def steps(rank: Rank) -> None:
    for rank.step in range(4):
        await rank.host("h").all_reduce(np.ones(1, np.int32), site="sum")
        await rank.host("h").barrier(site="meet")


def planted(kind: Any, site: str, ordinal: int) -> Explanation:
    world = world_of(3, ["h"], faults=(Fault(kind, 1, At(site, ordinal)),))
    done = run(world, steps)
    return explained(world, done, judge(world, done))


@pytest.mark.parametrize(
    ("kind", "site", "ordinal", "sure"),
    [
        ("die", "sum", 2, "high"),
        ("hang", "sum", 2, "high"),
        ("raise", "sum", 0, "high"),
        ("raise", "sum", 2, "medium"),  # it may be a victim of a value that it received
        ("skip", "sum", 2, "medium"),
        ("repeat", "sum", 2, "medium"),
        ("skip", "meet", 3, "medium"),
    ],
)
def test_a_majority_is_no_fact_of_the_trace(kind: str, site: str, ordinal: int, sure: str) -> None:
    found = planted(kind, site, ordinal)
    assert found.culprit is not None
    assert (found.culprit.ranks, found.confidence) == ((1,), sure)
    assert ("high: the trace shows it" in as_text(found)) == (sure == "high")
