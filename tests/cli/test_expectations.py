"""Tests that `dpsim run` and `dpsim explore` interpret the expectation of a scenario in the same way."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.commands import HEALTHY, SKIP, dpsim_, write
from tests.sized import sized_scenario

ASSUMES = (
    "assumes: no rank dies; unlimited residency; communicators are connected; unlimited launch queue; "
    "no allocation waits; no other effect of hardware"
)
NOWHERE = "faults: [{kind: skip, rank: 1, at: {site: dp.agree, ordinal: 99}}]\n"
LATE_NOWHERE = "delays: [{rank: 1, by: 1ms, at: {site: dp.agre}}]\n"
WRONG_STEP = "expect: {class: 'HANG:*', culprit: {rank: 1, step: 5}}\n"
ANY_STEP = "expect: {class: 'HANG:*', culprit: {rank: 1}}\n"
WRONG_RANK = "expect: {culprit: {rank: 0}}\n"

RANDOM = ("explore", "--strategy", "random", "--schedules", "50")
COMMANDS = [("run",), ("explore",), ("explore", "--jobs", "2"), RANDOM]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("planted", "why"),
    [
        (NOWHERE, "skip: rank 1 never reached dp.agree[99]; its last visit was dp.agree[5]"),
        (LATE_NOWHERE, "delay: rank 1 never reached dp.agre; did you mean dp.agree?"),
    ],
)
def test_a_fault_at_an_unreached_place_is_not_met(words: tuple[str, ...], planted: str, why: str) -> None:
    file = write(Path("x.yaml"), HEALTHY + planted)
    answer = dpsim_(*words, file)
    assert answer.code == 1
    assert answer.out.splitlines()[-1] == f"expected: held; NOT met: never applied: {why}"


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("expect", "why"),
    [
        (WRONG_STEP, "expected rank 1 in step 5 as culprit, got rank 1 in step 2"),
        (WRONG_RANK, "expected rank 0 as culprit, got rank 1 in step 2"),
    ],
)
def test_another_culprit_or_step_is_not_met(words: tuple[str, ...], expect: str, why: str) -> None:
    answer = dpsim_(*words, write(Path("x.yaml"), HEALTHY + SKIP + expect))
    assert answer.code == 1
    assert answer.out.splitlines()[-1].endswith(f"; NOT met: {why}")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_any_step_is_met(words: tuple[str, ...]) -> None:
    answer = dpsim_(*words, write(Path("x.yaml"), HEALTHY + SKIP + ANY_STEP))
    assert (answer.code, answer.out.splitlines()[-1][-5:]) == (0, "; met")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_run_that_hangs_early_need_not_reach_every_planted_fault(words: tuple[str, ...]) -> None:
    """The run hangs at the first fault, so it does not show whether the second would have applied."""
    both = "faults:\n" + "".join(f"  - {{kind: skip, rank: 1, at: {{site: dp.agree, ordinal: {n}}}}}\n" for n in (2, 4))
    answer = dpsim_(*words, write(Path("x.yaml"), HEALTHY + both + "expect: {class: HANG}\n"))
    assert (answer.code, answer.out.splitlines()[-1]) == (0, "expected: violated, HANG; met")


BREAKS_OFF = ("--module", "tests.cli.protocols")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(("ordinal", "applied"), [(1, True), (3, False)])
def test_a_failure_before_each_planted_fault_has_another_cause(
    words: tuple[str, ...], ordinal: int, applied: bool
) -> None:
    """The program fails by itself in step 2. The twin of the fault that comes later is one that comes before."""
    fault = f"faults: [{{kind: skip, rank: 0, at: {{site: meet, ordinal: {ordinal}}}}}]\n"
    file = write(Path("x.yaml"), sized_scenario("t_breaks_off", more=f"{fault}expect: {{class: HANG}}\n"))
    answer = dpsim_(*words, file, *BREAKS_OFF)
    last = [line for line in answer.out.splitlines() if line.startswith("expected: ")][-1]
    why = "skip: rank 0 never reached meet[3]; its last visit was meet[2]; the failure has another cause"
    assert (answer.code, last) == (
        int(not applied),
        f"expected: violated, HANG; {'met' if applied else f'NOT met: never applied: {why}'}",
    )


# ---- sets of small worlds


def test_a_fault_that_no_small_world_reaches_is_not_met() -> None:
    file = write(Path("x.yaml"), HEALTHY + NOWHERE)
    for jobs in ("1", "2"):
        words = ("explore", file, "--all-up-to", "ranks=2,steps=2", "--jobs", jobs)
        answer = dpsim_(*words)
        assert answer.code == 1
        lines = re.sub(r" ranks share no Python object: checked in \d of 4 worlds;", "", answer.out).splitlines()
        assert [*lines[:2], lines[-1]] == [
            "PROVEN  every one of these worlds holds in every schedule",
            ASSUMES,
            "expected: held; NOT met: never applied: "
            "skip: rank 1 never reached dp.agree[99]; its last visit was dp.agree[1]",
        ]
        found = dpsim_(*words, "--json").json
        assert (found["met"], found["scenarios"][0]["never_applied"]) == (
            False,
            ["skip: rank 1 never reached dp.agree[99]; its last visit was dp.agree[1]"],
        )


def test_a_delay_that_one_small_world_reaches_was_applied() -> None:
    """A delay counts as applied if one of the small worlds reaches it."""
    late = "delays: [{rank: 1, by: 1ms, at: {site: dp.agree, ordinal: 1}}]\n"
    answer = dpsim_("explore", write(Path("x.yaml"), HEALTHY + late), "--all-up-to", "ranks=2,steps=2")
    assert (answer.code, answer.out[:6]) == (0, "PROVEN")


@pytest.mark.parametrize(("verdict", "code"), [("", 1), ("verdict: violated, ", 0)])
def test_run_explains_that_explored_is_about_all_schedules(verdict: str, code: int) -> None:
    """If a scenario expects a violation only from an exploration, `run` explains why its result is not as expected."""
    answer = dpsim_("run", write(Path("x.yaml"), HEALTHY + SKIP + f"expect: {{{verdict}explored: violated}}\n"))
    assert answer.code == code
    said = "explore checks expect.explored; run checks expect.verdict, which defaults to held"
    assert (said in answer.out) == (code == 1)
