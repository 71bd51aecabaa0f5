"""Tests that a case contains no trace of its mistake, and that its verdict is right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from dpsim.checks.finding import Culprit, Finding
from dpsim.contract.ops import KIND, ORDINAL, SITE, THREAD
from dpsim.contract.world import At, Fault, Run, World
from tests.blame import cases as module
from tests.blame.campaign import KINDS
from tests.blame.cases import came_of, cases
from tests.blame.plants import Planted

SEEDS = range(12)
SENT_TWICE = 4


def accuse(rank: int, step: int, ranks: tuple[int, ...] = ()) -> Finding:
    return Finding("a check", "HANG", "", Culprit(rank, step, "meet", "", ranks=ranks), (0, 0))


def peeking(world: World, run: Run) -> list[Finding]:
    """A judge that looks for the record of the fault."""
    seen = [(rank, raw) for rank, own in enumerate(run.journals) for raw in own if raw[KIND] == "injected"]
    return [accuse(rank, raw[1]) for rank, raw in seen if raw[6] != "delay"]


def counting(world: World, run: Run) -> list[Finding]:
    """A judge that looks for a gap in the ordinals of a site, which only a planted fault leaves."""
    for rank, own in enumerate(run.journals):
        seen: Counter[tuple[str, str]] = Counter()
        for raw in own:
            key = raw[THREAD], raw[SITE]
            if raw[KIND] in ("collective", "transfer"):
                if raw[ORDINAL] != seen[key]:
                    return [accuse(rank, raw[1])]
                seen[key] += 1
    return []


@pytest.mark.parametrize(
    ("judge", "hides"), [(peeking, "stripped"), (counting, "without_traces")], ids=["injected", "ordinals"]
)
def test_no_judge_can_read_a_fault_where_it_was_planted(
    judge: module.Judge, hides: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The faulty twin keeps the traces, and then such a judge names ranks."""
    assert not [case for case in cases("torus", KINDS["torus"], SEEDS, judge) if case.findings]
    monkeypatch.setattr(module, hides, lambda kept: kept)
    seen = Counter(case.came for case in cases("torus", KINDS["torus"], SEEDS, judge))
    assert seen["right"] + seen["other step"] > 0
    assert seen["wrong"] == 0


@pytest.mark.parametrize(
    ("found", "came"),
    [
        ([], "not found"),
        ([Finding("a check", "HANG", "", None, (0, 0))], "undecided"),
        ([accuse(1, 3)], "right"),
        ([accuse(1, 2)], "other step"),
        ([accuse(2, 3)], "wrong"),
        ([accuse(1, 3, ranks=(1, 2))], "undecided"),
        ([accuse(0, 3, ranks=(0, 2))], "wrong"),
        ([accuse(2, 3), accuse(1, 3)], "wrong"),
    ],
)
def test_the_verdict_compares_the_first_finding_with_the_truth(found: Sequence[Finding], came: str) -> None:
    raw = ("collective", 3, "main", "meet", 0, "a.py:1")
    assert came_of(Planted(Fault("skip", 1, At("meet", 0)), "skip", raw), found) == came


def test_a_judge_that_raises_is_counted() -> None:
    def raising(world: World, run: Run) -> list[Finding]:
        if not run.finished:
            raise KeyError("a rank without an end")
        return []

    seen = Counter(case.came for case in cases("ring", KINDS["ring"], range(6), raising))
    assert seen["judge failed"] > 0


def test_a_healthy_run_with_a_finding_ends_the_campaign() -> None:
    with pytest.raises(AssertionError, match="ring 0: a healthy run has findings"):
        next(cases("ring", KINDS["ring"], [0], lambda world, run: [accuse(0, 0)]))


def test_what_no_check_can_see_has_its_own_count() -> None:
    """No rank takes the second message, so the run ends as before."""
    (case,) = cases("coordinator", KINDS["coordinator"], [SENT_TWICE])
    assert (case.planted.kind, case.came, case.run.finished) == ("twice", "ended well", True)
