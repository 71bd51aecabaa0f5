"""Tests the facts of a finding as text with names of services, and as JSON."""

from __future__ import annotations

import json

from dpsim.checks.finding import Culprit, Finding, fact, indented
from dpsim.contract.world import Run
from dpsim.diagnose.words.told import facts_json, told

FINDING = Finding(
    check="fault",
    klass="DEATH:RANK",
    message=fact("died", rank=2, step=5),
    culprit=Culprit(2, 5, "agree", ""),
    position=(5, 0),
    details=("a text", indented(fact("raised_with", ranks=(0, 2), message="no"))),
    why=fact("may_be_victims", ranks=(0,)),
)


def test_a_service_has_its_name() -> None:
    found = told(Run("sim", [[], [], []], ["finished"] * 3, [0] * 3, 0, services=("router",)), FINDING)
    assert found.message == "router died in step 5"
    assert found.details == ("a text", "  rank 0, router: no")
    assert found.grounds == ("rank 0 raised; it may be a victim of another rank's value",)
    assert found.of is FINDING


def test_json_has_each_fact_with_its_part() -> None:
    facts = json.loads(json.dumps(facts_json(FINDING), allow_nan=False))
    assert [(one["in"], one["fact"]) for one in facts] == [
        ("message", "died"),
        ("details", "indented"),
        ("why", "may_be_victims"),
    ]
    assert (facts[0]["rank"], facts[0]["step"]) == (2, 5)
    assert facts[1]["part"] == {"fact": "raised_with", "ranks": [0, 2], "message": "no"}
