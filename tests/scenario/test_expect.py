"""Tests of expectations: if a scenario expects a violation without a class, the registered class of its variant counts.

The program has three variants: registered with the class that it shows, with another class, and as harmless.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from dpsim.campaign.explored import explore_subject
from dpsim.campaign.properties import DoesNotHold, holds, holds_again
from dpsim.campaign.subject import Subject
from dpsim.campaign.token import Token
from dpsim.checks.expected import Expected
from dpsim.cli.run_text import expectation_line
from dpsim.contract.interface import Rank
from dpsim.contract.program import Arguments, Program
from dpsim.contract.registry import register_protocol, register_variant
from dpsim.runner import Result, run_scenario
from dpsim.scenario import Scenario, dump_scenario

RIGHT, WRONG = "CRASH:VALUEERROR", "HANG:COLLECTIVE:*"


@register_protocol("t_counts")
class Counts(Program[Arguments]):
    """A program whose one rank counts to one, and then may raise."""

    error: type[Exception] | None = None

    async def run(self, rank: Rank, prepared: Arguments) -> None:
        rank.step = 0
        await rank.sleep(1, site="count")
        if self.error is not None:
            raise self.error


@register_variant("T-RIGHT", protocol="t_counts", expected=RIGHT)
class Right(Counts):
    """A variant that is registered with the class that it shows."""

    error = ValueError


@register_variant("T-WRONG", protocol="t_counts", expected=WRONG)
class Wrong(Right):
    """A variant that is registered with another class than it shows."""


@register_variant("T-HARMLESS", protocol="t_counts", expected=None, reason="it only counts")
class Harmless(Counts):
    """A variant that is registered as harmless."""


@register_variant("T-MISSPELT", protocol="t_counts", expected="HANGS:COLLECTIVE")
class Misspelt(Right):
    """A variant that is registered with a class that no finding has."""


def scenario(variant: str | None, expect: dict[str, Any], **more: Any) -> Scenario:
    protocol = {"name": "t_counts", "variant": variant}
    return Scenario.model_validate({"name": "x", "protocol": protocol, "expect": expect, **more})


def ran(variant: str | None, expect: dict[str, Any], **more: Any) -> Result:
    return run_scenario(scenario(variant, expect, **more))


@pytest.mark.parametrize(
    ("variant", "expect", "of_run", "of_all"),
    [
        ("T-RIGHT", {"verdict": "violated"}, ("violated", RIGHT), ("violated", RIGHT)),
        ("T-RIGHT", {"explored": "violated"}, ("held", None), ("violated", RIGHT)),
        ("T-RIGHT", {"verdict": "violated", "explored": "violated"}, ("violated", RIGHT), ("violated", RIGHT)),
        ("T-RIGHT", {"verdict": "violated", "explored": "proven"}, ("violated", RIGHT), ("proven", None)),
        ("T-RIGHT", {"culprit": {"rank": 0, "step": 0}}, ("violated", RIGHT, 0, 0), ("violated", RIGHT, 0, 0)),
        ("T-RIGHT", {"explored": {"culprit": {"rank": 0}}}, ("held", None), ("violated", RIGHT, 0)),
        ("T-RIGHT", {"class": "HANG"}, ("violated", "HANG"), ("violated", "HANG")),
        ("T-RIGHT", {"class": "*"}, ("violated", "*"), ("violated", "*")),
        ("T-RIGHT", {"class": "HANG", "explored": "violated"}, ("violated", "HANG"), ("violated", RIGHT)),
        ("T-RIGHT", {}, ("held", None), ("held", None)),
        ("T-HARMLESS", {"verdict": "violated"}, ("violated", None), ("violated", None)),
        (None, {"verdict": "violated", "explored": "proven"}, ("violated", None), ("proven", None)),
    ],
)
def test_a_violation_without_a_class_has_the_registered_one(
    variant: str | None, expect: dict[str, Any], of_run: tuple[Any, ...], of_all: tuple[Any, ...]
) -> None:
    made = scenario(variant, expect)
    assert (made.expected, made.expected_of_all) == (Expected(*of_run), Expected(*of_all))


def test_a_file_is_written_without_the_class() -> None:
    made = scenario("T-RIGHT", {"verdict": "violated", "explored": {"culprit": {"rank": 0}}})
    text = dump_scenario(made)
    assert "class" not in text
    again = Scenario.model_validate(yaml.safe_load(text))
    assert (again, again.expected_of_all) == (made, made.expected_of_all)


def test_a_run_and_all_schedules_are_judged_by_the_registered_class() -> None:
    made = scenario("T-RIGHT", {"culprit": {"rank": 0}})
    assert expectation_line(run_scenario(made)) == f"expected: violated, {RIGHT}, culprit rank 0; met"
    explored = explore_subject(Subject.of(made))
    assert (explored.subject.expected, explored.unmet) == (made.expected, None)


def test_a_variant_that_is_registered_with_another_class_is_not_met() -> None:
    """The faulty twin: the file is the same, but the registered class is wrong, so the expectation is not met."""
    why = f"expected a finding of class {WRONG}, got {RIGHT}"
    made = scenario("T-WRONG", {"verdict": "violated"})
    assert expectation_line(run_scenario(made)) == f"expected: violated, {WRONG}; NOT met: {why}"
    assert explore_subject(Subject.of(made)).unmet == why
    assert ran("T-WRONG", {"class": RIGHT}).met, "the class in the file comes before the registered class"


def test_a_property_of_a_violation_expects_the_registered_class_too(tmp_path: Path) -> None:
    assert holds(scenario("T-RIGHT", {"verdict": "violated"})).verdict == "violated"
    made = scenario("T-WRONG", {"verdict": "violated"})
    said = f"expected: violated, {WRONG}; NOT met: expected a finding of class {WRONG}, got {RIGHT}"
    with pytest.raises(DoesNotHold) as raised:
        holds(made, save=tmp_path)
    assert said in str(raised.value)
    with pytest.raises(DoesNotHold) as again:
        holds_again(Token(made, (), RIGHT, "dpor", 10))
    assert said in str(again.value)
    assert "\nreplayed " in str(again.value), "dpsim judges the replayed run before it explores"


def test_a_fault_in_the_world_of_a_harmless_variant_is_of_any_class() -> None:
    dies = {"faults": [{"kind": "die", "rank": 0, "at": {"site": "count", "ordinal": 0}}]}
    assert [one.klass for one in ran("T-HARMLESS", {"verdict": "violated"}, **dies).findings] == ["DEATH:RANK"]
    assert ran("T-HARMLESS", {"verdict": "violated"}, **dies).met
    assert ran("T-HARMLESS", {"verdict": "violated"}).unmet == "expected violated, got vacuous"
    assert (
        ran("T-RIGHT", {"verdict": "violated"}, **dies).unmet == f"expected a finding of class {RIGHT}, got DEATH:RANK"
    )


def test_the_registered_class_may_not_be_switched_off() -> None:
    off = {"checks": {"switched_off": ["CRASH"]}}
    with pytest.raises(ValidationError, match=f"CRASH switches off the class {RIGHT} that expect waits for"):
        scenario("T-RIGHT", {"verdict": "violated"}, **off)
    assert scenario("T-RIGHT", {}, **off).expected == Expected()


def test_a_variant_that_is_registered_with_no_class_of_a_finding_is_refused() -> None:
    with pytest.raises(ValidationError) as caught:
        scenario("T-MISSPELT", {})
    problem = "no finding has a class that 'HANGS:COLLECTIVE' selects; did you mean 'HANG:COLLECTIVE'?"
    said = f"variant: T-MISSPELT is registered with expected='HANGS:COLLECTIVE': {problem}"
    assert said in str(caught.value)
