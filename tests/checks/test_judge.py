"""Tests findings that a scenario switches off by class: which findings remain, which are counted, and which patterns
dpsim refuses.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from dpsim.campaign.explored import explore_subject
from dpsim.campaign.subject import Subject
from dpsim.checks import Finding
from dpsim.checks import judge as judging
from dpsim.checks.finding import pattern_problem
from dpsim.checks.judge import switch_off, switched_off_text
from dpsim.cli.run_text import as_json, switched_off_lines
from dpsim.contract.interface import Rank
from dpsim.contract.world import At, CommunicatorSpec, Fault, World
from dpsim.runner import Result, run_scenario
from dpsim.scenario import ScenarioError, dump_scenario, parse_scenario
from tests.checks.handmade import Made
from tests.programs import Scripted, run, world_of
from tests.protocols import agreed

SKIP = {"kind": "skip", "rank": 1, "at": {"site": "dp.agree", "ordinal": 2}}
HANG = "HANG:COLLECTIVE:MISSING_RANK"


def scenario(*off: str, **more: Any) -> Any:
    return agreed({"ranks": 3, "steps": 6}, checks={"switched_off": list(off)}, **more)


def ran(*off: str, **more: Any) -> Result:
    return run_scenario(scenario(*off, faults=[SKIP], **more))


# ---- results of a run


def test_a_switched_off_finding_does_not_change_the_verdict() -> None:
    loud, quiet = ran(), ran("HANG:*")
    assert (loud.verdict, loud.switched_off, switched_off_lines(loud)) == ("violated", {}, [])
    assert {one.klass.partition(":")[0] for one in loud.findings} == {"HANG"}
    assert (quiet.verdict, quiet.findings, quiet.met) == ("held", [], True)
    ledger = sum(one.check == "ledger" for one in loud.findings)
    assert {one.check for one in loud.findings} == {"ledger", "deadlock"}
    assert quiet.switched_off == {"HANG:*": ledger}, "the ledger runs, the check of deadlocks does not"
    assert quiet.run.journals == loud.run.journals


def test_one_line_counts_the_switched_off_findings_even_if_there_are_none() -> None:
    count = sum(one.klass == HANG for one in ran().findings)
    assert switched_off_lines(ran("CRASH", HANG)) == [
        f"{count} finding{'s' * (count != 1)} switched off: 0 by CRASH, {count} by {HANG}"
    ]
    nothing = run_scenario(scenario("CRASH:*"))
    assert switched_off_lines(nothing) == ["0 findings switched off: 0 by CRASH:*"]
    assert as_json(nothing, None)["switched_off"] == {"CRASH:*": 0}
    assert as_json(ran(), None)["switched_off"] == {}


def test_findings_that_no_pattern_selects_stay() -> None:
    result = ran("MISMATCH", "CRASH:*")
    assert (result.verdict, result.findings) == ("violated", ran().findings)


def test_the_report_names_the_switch_that_hides_an_expected_finding() -> None:
    result = ran("HANG", expect={"verdict": "violated"})
    assert result.unmet is not None
    off = r"\d findings? switched off: \d by HANG; deadlock not run \(HANG\)"
    assert re.fullmatch(rf"expected violated, got held \({off}\)", result.unmet)
    blind = ran("HANG", "MISMATCH", expect={"verdict": "violated"}).unmet
    assert blind == "expected violated, got held (ledger, deadlock not run (HANG, MISMATCH))"


def test_the_first_pattern_that_selects_a_finding_counts_it() -> None:
    found = [Finding("x", klass, "", None, (0, 0)) for klass in ("HANG:UNDECIDED", "CRASH:KEYERROR", HANG)]
    kept, counts = switch_off(found, ["HANG:U*", "HANG", "DEATH"])
    assert (kept, counts) == ([found[1]], {"HANG:U*": 1, "HANG": 1, "DEATH": 0})
    assert switched_off_text(counts).startswith("2 findings switched off: 1 by HANG:U*, 1 by HANG, 0 by DEATH; ")
    assert switch_off(found, []) == (found, {})


# ---- checks that dpsim skips


@pytest.mark.parametrize(
    ("off", "idle"),
    [
        (["RACE"], ["race"]),
        (["RACE:BUFFER"], []),
        (["RACE:BUFFER", "RACE:R*"], ["race"]),
        (["CRASH:*"], []),
        (["CRASH:*", "DEATH"], ["fault"]),
        (["CRASH:V*", "DEATH"], []),
        (["DISAGREEMENT:PLAN"], []),
        (["HANG"], ["deadlock"]),
        (["MISMATCH", "HANG:COLLECTIVE"], ["ledger"]),
        (["*"], list(judging.CHECKS)),
        ([], []),
    ],
)
def test_a_check_that_could_find_nothing_else_is_not_run(
    monkeypatch: pytest.MonkeyPatch, off: list[str], idle: list[str]
) -> None:
    asked = []

    def spy(name: str) -> Any:
        def run(_: Any) -> list[Finding]:
            asked.append(name)
            return []

        return run

    for name, check in judging.CHECKS.items():
        monkeypatch.setitem(judging.CHECKS, name, check._replace(run=spy(name)))
    made = Made(2)
    monkeypatch.setattr(judging, "certified", lambda *_: frozenset())
    judging.judge(made.world, made.run(), off)
    assert asked == [name for name in judging.CHECKS if name not in idle]
    assert list(judging.not_run(off)) == idle


def test_without_races_and_stale_accesses_order_is_not_rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("the walk was made")

    made = Made(1)
    x = made[0].alloc("main", 8)
    for stream in ("main", "side"):
        made[0].launch("write", stream, writes=[x])
    monkeypatch.setattr("dpsim.checks.memory.shadow.Walk.go", never)
    assert judging.judge(made.world, made.run(), ["RACE:*", "STALE:*"]) == []
    with pytest.raises(AssertionError, match="the walk was made"):
        judging.judge(made.world, made.run(), ["RACE:*"])


def test_the_report_lists_checks_that_did_not_run_apart_from_checks_without_findings() -> None:
    quiet = run_scenario(scenario("RACE:*", "CRASH:*", "STALE"))
    line = "0 findings switched off: 0 by CRASH:*; race, stale not run (RACE:*, STALE)"
    assert switched_off_lines(quiet) == [line]
    said = as_json(quiet, None)
    assert (said["switched_off"], said["not_run"]) == ({"CRASH:*": 0}, {"race": ["RACE:*"], "stale": ["STALE"]})
    assert switched_off_text({"RACE": 0}) == "race not run (RACE)"


# ---- scenarios


def test_the_switched_off_patterns_are_saved_with_the_scenario() -> None:
    told = scenario("CRASH:*", "MISMATCH:COLLECTIVE:STEP")
    assert "checks:\n  switched_off: ['CRASH:*', 'MISMATCH:COLLECTIVE:STEP']\n" in dump_scenario(told)
    assert parse_scenario(dump_scenario(told)) == told
    assert "checks" not in dump_scenario(scenario())


@pytest.mark.parametrize(
    ("off", "says"),
    [
        (
            ["HANG", "CRASHS:*"],
            "checks.switched_off[1]: no finding has a class that 'CRASHS:*' selects; did you mean 'CRASH'?",
        ),
        (["hang"], "checks.switched_off[0]: no finding has a class that 'hang' selects; did you mean 'HANG'?"),
        (["MISMATCH:COLLECTIVE:STEPS"], "did you mean 'MISMATCH:COLLECTIVE:STEP'?"),
        (["QQQ"], "there are HANG:COLLECTIVE:MISSING_RANK, "),
        (["HANG:"], "checks.switched_off[0]: 'HANG:' has characters that are not allowed here"),
        ("HANG", "checks.switched_off: expected a list"),
    ],
)
def test_patterns_that_select_nothing_are_refused(off: Any, says: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        agreed(checks={"switched_off": off})
    assert says in str(caught.value)


def test_the_place_in_a_file_is_named() -> None:
    text = "name: x\nprotocol:\n  name: t_agree\nchecks:\n  switched_off: [HANG, CRASHY]\n"
    with pytest.raises(ScenarioError, match=r"^x\.yaml:5:24: checks\.switched_off\[1\]: .* did you mean 'CRASH'\?$"):
        parse_scenario(text, "x.yaml")


@pytest.mark.parametrize(("klass", "off"), [(HANG, "HANG"), ("HANG:*", "HANG:*"), (HANG, "HANG:COLLECTIVE:M*")])
def test_an_expected_class_cannot_be_switched_off(klass: str, off: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario("CRASH", off, expect={"class": klass})
    assert str(caught.value) == f"checks.switched_off[1]: {off} switches off the class {klass} that expect waits for"
    assert scenario("HANG:UNDECIDED", expect={"class": klass}).expect.klass == klass


# ---- which classes there are


@pytest.mark.parametrize(
    ("pattern", "known"),
    [
        ("*", True),
        ("HANG", True),
        ("HANG:*:DEAD_RANK", True),
        ("HANG:COLLECTIVE:DEAD_RANK:MORE", False),
        ("HANG:COLL", False),
        ("[HM]*:STEP", True),
        ("CRASH", True),
        ("CRASH:Value*", True),
        ("CR*", True),
        ("CR*X", True),  # for example CRASH:INDEX
        ("CR?SH:VALUEERROR", True),
        ("CR?SHED:*", False),
        ("CRASHES", False),
        ("DISAGREEMENT:PLAN", True),
        ("[D]EATH", False),  # a pattern selects subclasses only if it begins literally
    ],
)
def test_a_pattern_is_known_if_it_selects_a_class(pattern: str, known: bool) -> None:
    assert (pattern_problem(pattern) is None) == known


# ---- hangs that a crash explains


@pytest.mark.parametrize(
    ("raises", "off", "classes"),
    [
        ("before", (), ["CRASH:VALUEERROR"]),
        ("before", ("CRASH",), ["HANG:COLLECTIVE:DEAD_RANK"]),
        ("before", ("CRASH:VALUEERROR",), ["HANG:COLLECTIVE:DEAD_RANK"]),
        ("before", ("CRASH:KEYERROR",), ["CRASH:VALUEERROR"]),
        ("before", ("CRASH", "HANG"), []),
        ("after", ("CRASH",), []),
        ("never", ("CRASH",), []),
    ],
)
def test_an_unnoticed_crash_explains_no_hang(raises: str, off: tuple[str, ...], classes: list[str]) -> None:
    async def script(rank: Rank) -> None:
        if rank.rank == 1 and raises == "before":
            raise ValueError
        await rank.host("dp_cpu").barrier(site="meet")
        if rank.rank == 1 and raises == "after":
            raise ValueError

    world = world_of(3, ["dp_cpu"])
    told = switch_off(judging.judge(world, run(world, script), off), off)[0]
    assert [one.klass for one in told] == classes
    verdict = explore_subject(Subject(world, Scripted(script), switched_off=off), "dpor").verdict
    assert verdict == ("violated" if classes else "proven")


async def rests(rank: Rank) -> None:
    """Rank 1 waits for rank 0, which ends badly or never. Ranks 2 and 3 hang by themselves."""
    if rank.rank > 1:
        group = rank.host("b")
        await group.recv(1, "int32", 5 - rank.rank, site="circle")
    elif rank.rank == 1:
        await rank.host("a").barrier(site="meet")


async def crashes(rank: Rank) -> None:
    if rank.rank == 0:
        raise ValueError
    await rests(rank)


async def polls(rank: Rank) -> None:
    while rank.rank == 0:
        await rank.mailbox("box").poll("poll")
    await rests(rank)


async def comes(rank: Rank) -> None:
    if rank.rank == 0:
        await rank.host("a").barrier(site="meet")
    await rests(rank)


DEAD = "HANG:COLLECTIVE:DEAD_RANK"
CIRCLE = "HANG:P2P:UNMATCHED_RECV"


@pytest.mark.parametrize(
    ("script", "off", "classes"),
    [
        (crashes, (), ["CRASH:VALUEERROR"]),
        (crashes, ("CRASH",), [DEAD, CIRCLE]),
        (crashes, ("CRASH", DEAD), [CIRCLE]),
        (polls, (), ["LIVELOCK:POLL"]),
        (polls, ("LIVELOCK",), ["HANG:COLLECTIVE:MISSING_RANK", CIRCLE]),
        (comes, ("CRASH",), [CIRCLE]),
    ],
)
def test_a_hang_is_reported_if_checks_are_off(script: Any, off: tuple[str, ...], classes: list[str]) -> None:
    specs = (CommunicatorSpec("a", "a", "host", (0, 1)), CommunicatorSpec("b", "b", "host", (2, 3)))
    world = World(4, specs)
    played = run(world, script, choose=lambda *able: 0)
    told = switch_off(judging.judge(world, played, off), off)[0]
    assert sorted(one.klass for one in told) == sorted(classes)


def test_a_death_without_a_hang_is_reported() -> None:
    async def dies(rank: Rank) -> None:
        await rank.host("h").barrier(site="meet")
        if rank.rank:
            await rank.mailbox("box").get("never")

    world = replace(world_of(2, ["h"]), faults=(Fault("die", 0, At("meet", 0)),))
    off = ("HANG",)
    told = [switch_off(judging.judge(world, run(world, dies), one), one)[0] for one in (off, ("HANG", "DEATH"))]
    assert [[one.klass for one in findings] for findings in told] == [["DEATH:RANK"], []]


@pytest.mark.parametrize(("how", "counts"), [("message", True), ("polls", True), ("gone", False), ("timeout", False)])
def test_a_rank_may_have_learned_of_a_loss(how: str, counts: bool) -> None:
    """Rank 1 decides by an answer in a run that lost a process. If only the loss or a time-out explains the answer, the
    finding does not count.
    """
    world = world_of(2, ["dp_cpu"])

    async def decides(rank: Rank) -> None:
        rank.step, box = 0, rank.mailbox("box")
        if rank.rank == 0 and how != "timeout":
            rank.send(1, "box", ("gone", 0) if how == "gone" else 0, "send")
        if rank.rank == 1:
            if how == "polls":
                await box.poll("poll")
            await box.get("get", timeout_ns=1_000 if how == "timeout" else None)
        rank.decide("told", rank.rank, "dp_cpu")

    made = run(world, decides)
    assert [one.klass for one in judging.judge(world, made)] == ["DISAGREEMENT:TOLD"]
    lost = replace(made, lost="the process of rank 0 was ended by SIGTERM")
    assert [one.klass for one in judging.judge(world, lost)] == ["DISAGREEMENT:TOLD"] * counts
