"""Faults and delays that never happened are told with the name of a rank or service, and with its sites."""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.diagnose.injected import SHOWN
from dpsim.runner import run_scenario
from tests.protocols import served


def said(**planted: Any) -> str:
    [line] = run_scenario(served(1, **planted)).never_applied
    return line


@pytest.mark.parametrize(
    ("planted", "line"),
    [
        (
            {"delays": [{"rank": "engine.0", "by": "1ms", "at": {"site": "say.redy"}}]},
            "delay: engine.0 never came to say.redy; did you mean say.ready?",
        ),
        (
            {"faults": [{"kind": "die", "rank": "engine.0", "at": {"site": "say.ready", "ordinal": 3}}]},
            "die: engine.0 never came to say.ready[3]; its last visit was say.ready[0]",
        ),
        (
            {"faults": [{"kind": "skip", "rank": "engine.0", "at": {"site": "say.ready", "ordinal": 0}}]},
            "skip: engine.0 came to say.ready[0], but there it changes nothing",
        ),
        (
            {"delays": [{"rank": "engine.0", "by": "1ms", "at": {"thread": "other"}}]},
            "delay: engine.0 has no host thread 'other'; it has main",
        ),
        (
            {"faults": [{"kind": "kill", "rank": "frontend", "at": {"site": "hear.hello", "ordinal": 9}}]},
            "kill: frontend never came to hear.hello[9]; its last visit was hear.hello[0]",
        ),
        (
            {"faults": [{"kind": "kill", "rank": "frontend", "time": "1h"}]},
            "kill: frontend had ended before it died",
        ),
    ],
)
def test_a_service_is_named(planted: dict[str, Any], line: str) -> None:
    assert said(**planted) == line


def test_the_sites_of_a_service_are_named_where_none_is_near() -> None:
    line = said(delays=[{"rank": "frontend", "by": "1ms", "at": {"site": "xyz"}}])
    assert line == "delay: frontend never came to xyz; its sites: call.engine, hear.answer, hear.hello"


def test_of_many_sites_the_first_are_told() -> None:
    line = said(delays=[{"rank": 0, "by": "1ms", "at": {"site": "xyz"}}])
    sites = line.partition("its sites: ")[2].split(", ")
    assert len(sites) <= SHOWN + 1
    assert sites[-1].endswith(" more") == (len(sites) > SHOWN)
