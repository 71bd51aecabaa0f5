"""Tests of the report: it begins with the most important facts, shows many ranks on one screen, and uses no injected
fault as evidence.
"""

from __future__ import annotations

import pytest

import tests.scenario.params.protocols  # noqa: F401 - registers T-OWN
from dpsim.checks.judge import judge
from dpsim.contract.ops import KIND, RawRecord
from dpsim.contract.world import End, Run, World
from dpsim.diagnose.evidence import Extras
from dpsim.diagnose.first_screen import LINES
from dpsim.diagnose.report import report
from dpsim.diagnose.variants import compare_with_base
from dpsim.diagnose.words import text
from dpsim.runner import run_scenario
from tests.programs import world_of
from tests.protocols import served
from tests.records import all_reduce, raw


def agree(step: int, seq: int, site: str = "agree", group: str = "dp", place: str = "p.py:1") -> RawRecord:
    return all_reduce(site, group, seq, step=step, ordinal=seq, where=place)


def learned(step: int, ordinal: int, site: str = "agree") -> RawRecord:
    return raw("learned", site, step=step, ordinal=ordinal, outcome=1)


def finished(step: int) -> RawRecord:
    return raw("finished", "end", step=step)


def steps(*tags: int) -> list[RawRecord]:
    """Returns a journal with an agreement, and its result, in each of these steps."""
    return [record for seq, step in enumerate(tags) for record in (agree(step, seq), learned(step, seq))]


def world_with_groups(ranks: int, *groups: str) -> World:
    return world_of(ranks, groups or ("dp",))


def run(journals: list[list[RawRecord]], ends: list[End]) -> Run:
    return Run("sim", journals, ends, [0] * len(ends), 0, "no rank can make progress")


def test_a_held_run_has_no_report() -> None:
    done = run([[*steps(0, 1), finished(1)]] * 2, ["finished"] * 2)
    assert judge(world_with_groups(2), done) == []
    assert report(done, []) == ""


def test_sixty_four_ranks_fit_a_screen_and_the_minority_is_named() -> None:
    short = [*steps(0, 2, 3), finished(3)]
    journals = [short if rank == 17 else [*steps(0, 1, 2), agree(3, 3)] for rank in range(64)]
    done = run(journals, ["finished" if rank == 17 else "blocked" for rank in range(64)])
    findings = judge(world_with_groups(64), done)
    first, second, *rest = report(done, findings, Extras(next=("dpsim run x.yaml --full",))).splitlines()
    assert first.startswith("VIOLATED  HANG:COLLECTIVE  HANG: a rank left out ")
    assert second == "culprit   rank 17, step 1, agree at p.py:1 (where a peer calls it)"
    assert len(rest) < LINES
    assert rest[-1] == "next      dpsim run x.yaml --full"
    whole = report(done, findings, full=True)
    assert "missing rank 17: ended" in whole
    assert whole.splitlines()[-1] == "  dpsim show HANG:COLLECTIVE:MISSING_RANK"


def test_an_op_that_did_not_return_is_marked() -> None:
    journals = [[*steps(0), agree(1, 1)], [*steps(0), finished(0)]]
    done = run(journals, ["blocked", "finished"])
    findings = judge(world_with_groups(2), done)
    assert findings[0].klass == "HANG:COLLECTIVE:MISSING_RANK"
    marked = [line for line in report(done, findings, full=True).splitlines() if "did not return" in line]
    assert len(marked) == 1
    assert "step 1" in marked[0]


def test_a_cycle_of_opposite_waits_blames_no_rank() -> None:
    journals = [[agree(0, 0, "a", "x"), agree(0, 0, "b", "y")][:1], [agree(0, 0, "b", "y")]]
    findings = judge(world_with_groups(2, "x", "y"), run(journals, ["blocked", "blocked"]))
    assert findings[0].klass == "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS"
    assert findings[0].culprit is None
    assert "rank 0 (x #0) -> rank 1 (y #0) -> rank 0" in text(findings[0].message)


def test_the_first_of_several_findings_is_the_cause() -> None:
    """Judges a different decision in step 1, which causes other calls in step 1 and a hang in step 2. The decision is
    the first finding.
    """

    def decided(step: int, value: int) -> RawRecord:
        return raw("decision", "plan", step=step, ordinal=step, where="p.py:2", communicator="dp", value=value)

    good = [*steps(0), decided(0, 1), *steps(0, 1)[2:], decided(1, 1), agree(1, 2, "more")]
    bad = [*steps(0), decided(0, 1), *steps(0, 1)[2:], decided(1, 9)]
    findings = judge(world_with_groups(3), run([good, good, bad], ["blocked"] * 3))
    assert [finding.klass for finding in findings] == ["DISAGREEMENT:PLAN", "HANG:COLLECTIVE:MISSING_RANK"]
    assert findings[0].culprit is not None
    assert findings[0].culprit.rank == 2


def test_a_stop_without_evidence_is_undecided() -> None:
    """Judges a rank that stopped in no op, which is evidence. If its last op put work on its device, it may be stuck
    behind that work, and the hang is undecided.
    """
    for last, klass in (
        ([], "HANG:HOST:NO_OP"),
        ([raw("launch", "kernel", stream="main", reads=(), writes=())], "HANG:UNDECIDED"),
    ):
        findings = judge(world_with_groups(2), run([[*steps(0), *last], steps(0)], ["blocked", "finished"]))
        assert [finding.klass for finding in findings] == [klass]


def test_injected_records_are_shown_and_not_judged() -> None:
    injected = raw("injected", "agree", step=1, ordinal=1, where="p.py:1", what="skip")
    with_it = [[*steps(0), injected, *steps(0, 2)[2:], finished(2)], [*steps(0, 1, 2)[:3]]]
    without = [[record for record in journal if record[KIND] != "injected"] for journal in with_it]
    ends: list[End] = ["finished", "blocked"]
    assert (
        judge(world_with_groups(2), run(with_it, ends))[0].klass
        == judge(world_with_groups(2), run(without, ends))[0].klass
    )
    assert "rank 0 agree[1]: skip" in report(
        run(with_it, ends), judge(world_with_groups(2), run(with_it, ends)), full=True
    )


@pytest.mark.parametrize(
    ("ends", "klass"),
    [
        (["raised", "blocked"], "CRASH:VALUEERROR"),
        (["died", "finished"], "DEATH:RANK"),
        (["died", "blocked"], "HANG:COLLECTIVE:DEAD_RANK"),
    ],
)
def test_a_rank_that_raises_or_dies(ends: list[End], klass: str) -> None:
    last = raw("raised", "ValueError", step=1, where="p.py:9", message="no") if ends[0] == "raised" else agree(0, 0)
    waits = [agree(1, 1)] if ends[1] == "blocked" else []
    findings = judge(
        world_with_groups(2), run([[*steps(0), last] if ends[0] == "raised" else steps(0), [*steps(0), *waits]], ends)
    )
    assert findings[0].klass == klass
    assert findings[0].culprit is not None
    assert findings[0].culprit.rank == 0


def test_names_of_services_do_not_shift_columns() -> None:
    """Checks that columns align, though "coordinator" is longer than "rank 2", the name that checks and records use."""
    result = run_scenario(served(faults=[{"kind": "die", "rank": 0, "at": {"site": "say.report", "ordinal": 0}}]))
    text = report(result.run, result.findings, full=True)
    assert "to ready of coordinator" in text
    places = [line.index(" tests/") for line in text.partition("last 5 ops")[2].splitlines() if " tests/" in line]
    assert len(places) > 5
    assert len(set(places)) == 1


STOPS = {"hang": "rank 1 hangs at agree[1] in step 1, p.py:7", "die": ""}


@pytest.mark.parametrize("what", ["hang", "die", "delay"])
def test_an_injected_stop_is_among_the_last_ops_of_its_rank(what: str) -> None:
    injected = raw("injected", "agree", step=1, ordinal=1, where="p.py:7", what=what, ns=1)
    ends: list[End] = ["blocked", "died" if what == "die" else "blocked"]
    done = run([[*steps(0), agree(1, 1)], [*steps(0), injected]], ends)
    lines = report(done, judge(world_with_groups(2), done), full=True).splitlines()
    last = [line.split() for line in lines if "here (injected)" in line]
    words = {"hang": "hangs", "die": "dies"}.get(what)
    assert last == ([["rank", "1", "step", "1", words, "here", "(injected)", "agree", "p.py:7"]] if words else [])
    assert [line.strip() for line in lines if "hangs at" in line] == [one for one in [STOPS.get(what)] if one]


@pytest.mark.parametrize(
    ("where", "advised"),
    [("witness.py:65", True), ("other_mine.py:2", True), ("mine.py:2", False), ("sub/mine.py:2", False)],
)
def test_a_crash_in_a_check_of_the_program_leads_to_the_variant(where: str, advised: bool) -> None:
    """The line of the exception is a line of dpsim, which has no mistake. A variant that raises needs no advice."""
    raised = raw("raised", "ValueError", where=where, message="no")
    done = run([[raised], [finished(0)]], ["raised", "finished"])
    extras = Extras(compare=("mine.py", "Compare Mine (mine.py) with Step."))
    text = report(done, judge(world_with_groups(2), done), extras, full=True)
    assert ("the usual fix:\n  Compare Mine (mine.py) with Step.\n" in text) == advised
    assert ("the usual fix:\n  Read the exception at the line" in text) != advised


def test_a_variant_is_compared_with_its_base_class() -> None:
    assert compare_with_base(None) is None
    file, advice = compare_with_base("T-OWN") or ("", "")
    assert file == "tests/scenario/params/protocols.py"
    assert advice.startswith(f"Compare Own ({file}) with ")
