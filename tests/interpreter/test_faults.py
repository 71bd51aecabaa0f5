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


SHOWN = {
    "joint broadcast": 85,
    "joint reduce": 60,
    "joint gather": 174,
    "joint scatter": 115,
    "pieces are mixed up": 705,
    "a reduce is an all_reduce": 4,
    "rendezvous always": 130,
    "a collective of nothing is a meeting": 46,
    "eager always": 3,
    "a group's transfers in order": 58,
    "a poll before the message": 2,
    "messages overtake": 55,
    "no rank dies early": 2,
    "slots without end": 120,
    "slots for collectives only": 120,
    "an event has passed": 7,
    "an event has not passed": 7,
    "a collective's end proves a peer's end": 705,
    "communicators without order": 518,
    "reuse is no matter": 25,
    "marks are nothing": 64,
}
"""For each fault, a script that shows it. The test begins there, and tries all other scripts after it, so a
wrong number costs time and nothing else.
"""


@pytest.mark.slow
@pytest.mark.runs_once
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS[name](monkeypatch)
    monkeypatch.setattr(judge, "certified", lambda *_: frozenset())  # it would accept runs that a faulty check rejects
    first = SHOWN.get(name, 0)
    for seed in (*range(first, SCRIPTS), *range(first)):
        script, compared = expected(seed)
        if compared.most.complete and compared.against(explore_script(script, SCHEDULES)).difference:
            return
    raise AssertionError(f"{SCRIPTS} scripts do not show it")
