"""Tests that the comparison notices each planted fault within SCRIPTS scripts."""

from __future__ import annotations

from functools import cache

import pytest

from dpsim.checks import judge
from tests.interpreter.comparison import Compared, interpreted
from tests.interpreter.faults import FAULTS
from tests.interpreter.generator import random_script
from tests.interpreter.language import Script
from tests.interpreter.machine import explore_script
from tests.properties import nightly_but

SCRIPTS = 1_000
"""The rarest fault shows in one script of about 800."""

SCHEDULES = 200


@cache
def expected(seed: int) -> tuple[Script, Compared]:
    script = random_script(seed)
    return script, interpreted(script, 3_000)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_can_be_planted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plants the fault only, to check that the patched code still exists. The slow tests check that the comparison
    notices it.
    """
    FAULTS[name](monkeypatch)


LONGEST = "pieces are mixed up"
"""The rarest fault, for the night: its search takes over a minute."""


@pytest.mark.runs_once
@pytest.mark.parametrize("name", nightly_but(FAULTS, lambda name: name != LONGEST))
def test_a_planted_fault_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS[name](monkeypatch)
    monkeypatch.setattr(judge, "certified", lambda *_: frozenset())  # it would accept runs that a faulty check rejects
    for seed in range(SCRIPTS):
        script, compared = expected(seed)
        if compared.most.complete and compared.against(explore_script(script, SCHEDULES)).difference:
            return
    raise AssertionError(f"{SCRIPTS} scripts do not show it")
