"""Tests of a report's first screen: at most ten lines of 120 columns, with the same words on every backend."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpsim.checks.classes import CLASSES
from dpsim.checks.finding import Culprit, Fact, Finding, fact
from dpsim.contract.world import Run
from dpsim.diagnose import first_screen
from dpsim.diagnose.evidence import Extras, evidence, kind_words, last_agreed
from dpsim.diagnose.first_screen import Passage
from dpsim.diagnose.report import MOST, report
from tests.records import all_reduce, raw

LONG = ", ".join(
    f"all_reduce int32[{number}] on dp #{number} at some/folder/program.py:{number}" for number in range(9)
)
HANG = Finding(
    check="ledger",
    klass="HANG:COLLECTIVE:MISSING_RANK",
    message="rank 1 left out agree (all_reduce on dp) in step 2; ranks 0, 2 made it",
    culprit=Culprit(1, 2, "agree", "app/step.py:88"),
    position=(2, 0),
    ground=("step tags differ in 7 of 7 later pairs", "rank 1 made agree in 8 of 8 other steps"),
    waits=("rank 0 -> rank 1 (dp #2)", "rank 1 -> rank 0 (ep #2)"),
)


def raised(error: str, step: int, *ranks: int) -> Fact:
    return fact("raised", thread="", ranks=ranks, error=error, step=step, where="", message="")


def side(rank: int, *calls: str) -> Fact:
    return fact("side", ranks=(rank,), step=None, calls=calls)


CHAIN = (("agree", "app/step.py:88"), ("run", "app/step.py:31"), ("main", "app/loop.py:7"))
EXTRAS = Extras(
    no_return="rank 2 posts hidden.receive[2]",
    swap="rank 0 takes RESUME before START_WAVE 1",
    one_more="rank 1, step 2",
    variant="M-1 is Wrong, app/variants.py:3",
    schedule=("4 choices with 1 switch, failure 448da4e9, found by dpor in run 2", "rank 0 a[0]", "rank 1 b[0]"),
    next=("dpsim run x.yaml --full", "dpsim replay x.jsonl"),
)


def run(*extra: tuple[object, ...], backend: str = "sim", ranks: int = 3) -> Run:
    own = [all_reduce("agree", "dp", step, step=step, ordinal=step, where="app/step.py:88") for step in range(3)]
    journals = [[*own, *extra] if rank else own for rank in range(ranks)]
    done = Run(backend, journals, ["blocked"] * ranks, [0] * ranks, 0, "no rank can make progress")
    return replace(done, chains={"app/step.py:88": CHAIN})


def test_the_report_names_what_a_form_leaves_unprotected() -> None:
    told = EXTRAS._replace(unprotected=("0.1 lets it go; 0.1-repaired waits",), schedule=(), one_more="", variant="")
    lines = report(run(), [HANG], told._replace(no_return="", swap="")).splitlines()
    assert "form      0.1 lets it go; 0.1-repaired waits" in lines
    assert evidence(run(), [HANG], told)["unprotected"] == ["0.1 lets it go; 0.1-repaired waits"]
    assert evidence(run(), [], told)["unprotected"] == []


@pytest.mark.parametrize(("classes", "shown"), [(("HANG",), True), (("CRASH", "HANG:HOST:*"), False), ((), False)])
def test_the_line_is_left_out_of_what_cannot_depend_on_it(classes: tuple[str, ...], shown: bool) -> None:
    told = EXTRAS._replace(unprotected=("0.1 lets it go",), shows={"0.1 lets it go": classes}, schedule=())
    told = told._replace(next=(), one_more="", variant="", no_return="", swap="")
    assert bool(evidence(run(), [HANG], told)["unprotected"]) is shown
    assert ("form      0.1 lets it go" in report(run(), [HANG], told).splitlines()) is shown


def test_a_first_screen_with_every_fact_has_ten_lines() -> None:
    crash = Finding(
        "fault",
        "CRASH:WRONGTOKEN",
        raised("WrongToken", 8, 0, 1),
        Culprit(0, 8, "WrongToken", "", ranks=(0, 1)),
        (8, 0),
    )
    assert report(run(), [HANG, crash], EXTRAS._replace(one_more="", variant="", schedule=())).splitlines() == [
        "VIOLATED  HANG:COLLECTIVE  HANG, WRONG TOKEN: a rank left out a collective in which its peers wait",
        "culprit   rank 1, step 2, agree at app/step.py:88 < agree < step.py:31 < run < loop.py:7",
        "          rank 1 left out agree (all_reduce on dp) in step 2; ranks 0, 2 made it",
        "then      ranks 0, 1 raised WrongToken in step 8",
        "waits     rank 0 -> rank 1 (dp #2); rank 1 -> rank 0 (ep #2)",
        "agreed    all steps up to 1",
        "turning   point of no return: rank 2 posts hidden.receive[2]",
        "          in this run, rank 0 takes RESUME before START_WAVE 1; otherwise, the run finishes",
        "ground    step tags differ in 7 of 7 later pairs; rank 1 made agree in 8 of 8 other steps",
        "next      dpsim run x.yaml --full       dpsim replay x.jsonl",
    ]


def test_the_report_of_a_finished_run_does_not_contrast_it_with_a_finished_one() -> None:
    """A run with a disagreement finishes too, so its report does not contrast it with a run that finishes."""
    whole = run()
    whole.ends = ["finished"] * len(whole.ends)
    text = report(whole, [HANG], EXTRAS._replace(no_return="", schedule=()))
    assert "otherwise, nothing fails" in text
    assert "the run finishes" not in text


LONGEST = [
    replace(HANG, message=f"rank 1 made {LONG}", ground=(LONG,), waits=(LONG, LONG)),
    replace(
        HANG,
        culprit=None,
        message=fact("calls_differ", step=2, sites=("agree",), ways=(LONG,)),
        details=(side(0, *LONG.split(", ")), side(1, *f"{LONG}x".split(", "))),
    ),
    replace(HANG, check="race", klass="RACE:BUFFER", details=(LONG, LONG, fact("to_order", cure=LONG)), waits=()),
    replace(HANG, klass="CRASH:X" + "Y" * 60, culprit=replace(HANG.culprit or Culprit(0, 0, "", ""), within=LONG)),
    replace(HANG, details=tuple(f"{LONG} {number}" for number in range(99))),
]


@pytest.mark.parametrize("finding", LONGEST)
def test_long_texts_are_cut_and_commands_are_not(finding: Finding) -> None:
    command = f"dpsim run {'x' * 150}.yaml --full"
    lines = report(run(), [finding, *LONGEST], EXTRAS._replace(next=(command,))).splitlines()
    assert len(lines) <= 10
    assert max(len(line) for line in lines if command not in line) <= 120
    assert lines[-1] == f"next      {command}"
    assert [line[:8] for line in lines[:2]] == ["VIOLATED", "culprit "]


def test_without_the_cut_it_is_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin of `test_long_texts_are_cut_and_commands_are_not`: without the limit the screen has more than ten
    lines.
    """
    monkeypatch.setattr(first_screen, "LINES", 99)
    assert len(report(run(), [LONGEST[0], *LONGEST], EXTRAS).splitlines()) > 10


@pytest.mark.parametrize("of_peer", [True, False])
def test_the_line_of_a_peer_is_marked_as_such(of_peer: bool) -> None:
    """Rank 1 left a call out, so the line is where its peers call it. A rank that made the call has its own line."""
    culprit = Culprit(1, 2, "agree", "app/step.py:88", of_peer=of_peer)
    line = report(run(), [replace(HANG, culprit=culprit)], EXTRAS).splitlines()[1]
    note = " (where a peer calls it)" if of_peer else ""
    assert line == f"culprit   rank 1, step 2, agree at app/step.py:88{note} < agree < step.py:31 < run < loop.py:7"


def test_both_sides_of_a_disagreement_are_within_six_lines() -> None:
    lines = report(run(), [LONGEST[1]], EXTRAS).splitlines()
    assert lines[1] == "culprit   not decided: no majority and no other evidence"
    why = "each rank received the same result from agree, so a majority proves nothing"
    assert report(run(), [replace(LONGEST[1], why=why)], EXTRAS).splitlines()[1] == f"culprit   not decided: {why}"
    sides = [at for at, line in enumerate(lines) if line.startswith(("          rank 0: ", "          rank 1: "))]
    assert len(sides) == 2
    assert max(sides) < 6
    assert "all_reduce int32[8] on dp #8 at some/folder/program.py:8x" in "".join(lines[max(sides) :])


def test_the_sentence_without_a_culprit_is_whole() -> None:
    """Checks that the sentence of a finding without a culprit is complete, because its end may be the cure. Beside
    three sides it has only one line, which loses its last words.
    """
    cure = "every member has to decide it, or mark it local"
    said = f"rank 1 of world_cpu did not decide 'tokens' in step 0, and rank 0 decided 3 at app/program.py:22; {cure}"
    two = Finding("agreement", "DISAGREEMENT:TOKENS", said, None, (0, 0), ("rank 0 decided it", "rank 1 did not"))
    assert said in " ".join(report(run(), [two], EXTRAS).replace("\n" + " " * 10, " ").splitlines())
    three = replace(two, details=(*two.details, "rank 2 did not"))
    line = report(run(), [three], EXTRAS).splitlines()[2].strip().removesuffix(" ...")
    assert said.startswith(f"{line} ")


def test_a_line_that_is_cut_ends_with_a_whole_word() -> None:
    """A long step of the schedule, and a part whose further lines the screen has no room for, lose their last words. A
    side of a disagreement keeps the place at its end.
    """
    said = (
        f"rank 0 receives message ('run', {'7, ' * 9}0) of rank 1 (order[0]); 16 random schedules from there fail, too"
    )
    screen = report(run(), [HANG], EXTRAS._replace(no_return=said)).splitlines()
    line = next(line for line in screen if line.startswith("turning "))
    assert f"{said} ".startswith(line.removeprefix("turning   point of no return: ").removesuffix("..."))
    assert line.endswith(" ...")
    alone = report(run(), [HANG], EXTRAS._replace(no_return=said, swap="", schedule=())).splitlines()
    assert said in " ".join(map(str.strip, alone)), "without a swap the line continues on a second one"
    sides = tuple(f"rank {rank} is {'asleep ' * 40}in get at a.py:{rank}" for rank in range(3))
    part = report(run(), [replace(HANG, culprit=None, details=sides)], EXTRAS).splitlines()[3]
    assert part.endswith(" asleep in get at a.py:0")
    assert " ... " in part
    long = f"{'asleep ' * 17}"[:-2]
    [first, *_] = first_screen._fitted([Passage(1, [long, "more"], 1), Passage(9, ["line"] * 9, 9)])
    assert first == f"{'asleep ' * 16}..."


def test_the_whole_report_has_the_turning_uncut() -> None:
    said = f"rank 0 receives message ('run', {'7, ' * 9}0) of rank 1 (order[0]); 16 random schedules from there fail"
    for no_return, cut in ((said, True), (EXTRAS.no_return, False)):
        extras = EXTRAS._replace(no_return=no_return)
        whole = report(run(), [HANG], extras, full=True)
        assert ("\nthe turning:\n" in whole) == cut
        assert (f"\n  point of no return: {no_return}\n" in whole) == cut


def test_the_whole_report_has_an_end() -> None:
    """Checks that a full report has an end, with 64 different ranks and many findings."""
    own = [[raw("probe", f"at.{rank}.{n}", step=2, where="p.py:1") for n in range(5)] for rank in range(64)]
    journals = [[all_reduce(f"agree.{rank}", "dp", n, step=2, ordinal=n) for n in range(5)] for rank in range(64)]
    many = replace(run(), journals=[[*one, *other] for one, other in zip(own, journals, strict=True)])
    many = replace(many, ends=["blocked"] * 64)
    findings = [replace(one, details=tuple(f"line {n}" for n in range(99))) for one in LONGEST * 4]
    extras = EXTRAS._replace(schedule=tuple(map(str, range(99))))
    whole = report(many, findings, extras, full=True).splitlines()
    assert 70 < len(whole) <= MOST
    titles = [line for line in whole if line.endswith(":") and not line.startswith(" ")]
    assert len(titles) == len({*titles}) >= 4
    assert any(line.startswith("  ... and ") for line in whole)


def test_reports_of_two_backends_differ_only_in_the_observation() -> None:
    """Checks that the reports of two backends differ only in the line about the observation."""
    simulated, real = (
        report(run(), [HANG], EXTRAS),
        report(replace(run(backend="gloo"), observed="5 s"), [HANG], EXTRAS),
    )
    assert [line for line in simulated.splitlines() if not line.startswith("observed")] == [
        line for line in real.splitlines() if not line.startswith("observed")
    ]


@pytest.mark.parametrize(("step", "words"), [(-1, "before its first step"), (1_000_000, "in no step"), (3, "step 3")])
def test_steps_before_the_first_and_after_the_last_have_words(step: int, words: str) -> None:
    finding = replace(
        HANG, message=f"raised X in step {step}", culprit=Culprit(1, step, "agree", ""), position=(step, 0)
    )
    lines = report(run(), [finding, finding], full=True)
    assert f"culprit   rank 1, {words}, agree" in lines
    assert ("step -1" in lines, "1000000" in lines) == (False, False)


def test_the_words_of_each_class_fit_in_the_first_line() -> None:
    assert max(len(f"VIOLATED  {klass}  {kind_words(klass)}: {one.words}") for klass, one in CLASSES.items()) <= 120


def test_the_last_step_in_which_all_agreed() -> None:
    assert last_agreed(run(), [HANG]) == 1
    assert last_agreed(run(), [HANG, replace(HANG, position=(0, 0))]) is None, "nothing lies before step 0"
    assert last_agreed(run(), [replace(HANG, culprit=Culprit(3, 2, "agree", ""))]) is None, (
        "the steps of a service are not compared with those of the ranks"
    )
    shorter = run()
    shorter.journals[2] = shorter.journals[2][:1]
    assert last_agreed(shorter, [HANG]) == 0


def test_json_has_the_same_facts() -> None:
    found = evidence(run(), [HANG], EXTRAS)
    assert found["chain"] == [list(call) for call in CHAIN]
    assert (found["agreed"], found["waits"], found["ground"]) == (1, list(HANG.waits), list(HANG.ground))
    assert (found["no_return"], found["swap"], found["next"]) == (EXTRAS.no_return, EXTRAS.swap, list(EXTRAS.next))
    assert evidence(run(), [], EXTRAS)["next"] == []
    assert evidence(None, [])["chain"] == []


@pytest.mark.parametrize(("services", "who"), [(("router",), "router"), ((), "rank 2")])
def test_json_names_services(services: tuple[str, ...], who: str) -> None:
    """A run of two ranks and a router. In its faulty twin, the run lost the names of its services."""
    extras = Extras(no_return="rank 2 sends wake[0]", swap="rank 2 sends wake[0] before rank 0 reads mailbox box")
    found = evidence(replace(run(), services=services), [HANG], extras)
    assert found["no_return"] == f"{who} sends wake[0]"
    assert found["swap"] == f"{who} sends wake[0] before rank 0 reads mailbox box"


def test_a_hang_without_a_chain_is_reported_by_its_check() -> None:
    ring = fact("circle", ops=False, circle="rank 0 (x #0) -> rank 1 (y #0) -> rank 0")
    circle = replace(HANG, check="deadlock", message=ring, waits=())
    other = replace(circle, message="rank 0 waits in agree for rank 1, which never joins (ended)")
    first = replace(HANG, waits=())
    assert evidence(run(), [first, circle])["waits"] == ["rank 0 (x #0) -> rank 1 (y #0) -> rank 0"]
    assert evidence(run(), [first, other])["waits"] == [other.message]
    assert evidence(run(), [other])["waits"] == [], "the report begins with this finding, so `waits` does not repeat it"


def test_a_report_prints_a_remedy_once() -> None:
    cure = "stream main must wait for an event recorded on stream comm"
    race = replace(
        HANG,
        check="race",
        klass="RACE:BUFFER",
        message=fact("race", rank=0, first="a", second="b", what="x", cure=cure, more=None),
        details=("rank 0, step 0: a writes x", "rank 0, step 0: b reads x", fact("to_order", cure=cure)),
    )
    for full in (False, True):
        assert report(run(), [race], full=full).count(cure) == 1
