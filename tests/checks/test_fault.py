"""Tests ranks that raise: the culprit, and the order of the findings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpsim.checks.expected import Expected
from dpsim.contract.words import ranks_text
from dpsim.contract.world import Run
from dpsim.diagnose.report import report
from tests.checks.handmade import Made


def raised(made: Made, *ranks: int, where: str = "p.py:9") -> list[str]:
    """Lets these ranks raise, and returns the ends of all ranks."""
    for rank in ranks:
        made[rank].add("raised", "ValueError", where=where, message=f"no {rank}")
    return ["raised" if rank in ranks else "finished" for rank in range(len(made.hands))]


def test_a_rank_that_raised_is_the_culprit() -> None:
    made = Made(3)
    [found] = made.findings(*raised(made, 1))
    assert (found.klass, found.message) == ("CRASH:VALUEERROR", "rank 1 raised ValueError in step 0: no 1")
    assert str(found.culprit) == "rank 1, step 0, ValueError at p.py:9"


@pytest.mark.parametrize(
    ("ranks", "ground"),
    [
        ((1,), ("rank 1 raised; it may be a victim of another rank's value",)),
        ((0, 2), ("ranks 0, 2 raised; they may be victims of another rank's value",)),
        ((0, 1, 2), ()),
    ],
)
@pytest.mark.parametrize("received", [True, False])
def test_a_rank_that_raised_after_a_result_may_be_a_victim(
    ranks: tuple[int, ...], ground: tuple[str, ...], received: bool
) -> None:
    made = Made(3)
    for hand in made.hands if received else ():
        hand.learned(hand.collective("dp", None, site="agree"))
    [found] = made.findings(*raised(made, *ranks))
    assert found.grounds == (ground if received else ())


@pytest.mark.parametrize(("ranks", "who"), [((0, 2), "ranks 0, 2"), ((0, 1, 2), "every rank")])
def test_equal_exceptions_are_reported_together(ranks: tuple[int, ...], who: str) -> None:
    made = Made(3)
    [found] = made.findings(*raised(made, *ranks))
    assert str(found.culprit) == f"{who}, step 0, ValueError at p.py:9"
    assert found.message == f"{ranks_text(ranks)} raised ValueError in step 0 at p.py:9: no 0"
    assert found.details == tuple(f"rank {rank}: no {rank}" for rank in ranks)


@pytest.mark.parametrize("rank", range(3))
def test_a_scenario_may_expect_any_of_those_that_raised_alike(rank: int) -> None:
    made = Made(3)
    [found] = made.findings(*raised(made, 0, 2))
    unmet = Expected("violated", "CRASH", rank, 0).unmet("violated", found)
    assert unmet == (None if rank != 1 else "expected rank 1 in step 0 as culprit, got ranks 0, 2 in step 0")


def test_a_service_beside_a_rank_has_its_name_in_the_report() -> None:
    made = Made(3)
    made.world = replace(made.world, size=2, services=("engine",), communicators=())
    [found] = made.findings(*raised(made, 1, 2))
    done = Run("made", [hand.journal for hand in made.hands], ["finished", "raised", "raised"], [0] * 3, 0)
    done.services = ("engine",)
    assert "culprit   rank 1, engine, step 0, ValueError at p.py:9" in report(done, [found]).splitlines()


@pytest.mark.parametrize("differ", ["step", "place"])
def test_exceptions_of_different_places_are_reported_separately(differ: str) -> None:
    made = Made(2)
    made[1].step = int(differ == "step")
    raised(made, 0)
    raised(made, 1, where="p.py:8" if differ == "place" else "p.py:9")
    assert [one.culprit and one.culprit.rank for one in made.findings("raised", "raised")] == [0, 1]


@pytest.mark.parametrize("end", ["died", "raised"])
def test_an_exception_after_a_notice_is_reported_after_that_end_in_any_step(end: str) -> None:
    """Rank 2 ends, rank 1 gets a notice of that, and rank 0 gets one of rank 1's end. The findings follow this order,
    not the order of steps.
    """
    made = Made(3)
    made[2].step = 5
    made[2].add("probe", "last")
    for rank, gone in ((1, 2), (0, 1)):
        made[rank].learned(made[rank].take(), ("gone", gone))
        made[rank].step = -rank
    raised(made, 0, 1, *[2] * (end == "raised"))
    assert [one.culprit and one.culprit.rank for one in made.findings("raised", "raised", end)] == [2, 1, 0]


def test_an_exception_after_the_notice_of_a_normal_end_keeps_its_position() -> None:
    made = Made(2)
    made[1].step = 5
    made[0].learned(made[0].take(), ("gone", 1))
    raised(made, 0)
    assert [one.position for one in made.findings("raised", "finished")] == [(0, 2)]


def test_a_later_op_of_another_thread_does_not_change_the_raising_thread() -> None:
    made = Made(1)
    raised(made, 0)
    made[0].note("probe", "later", thread="b")
    (found,) = made.findings("raised")
    assert (found.klass, found.culprit and found.culprit.thread) == ("CRASH:VALUEERROR", "main")


@pytest.mark.parametrize(("where", "said", "thread"), [
    ("p.py:9", "ValueError: no 0", "b"),
    ("p.py:8", "ValueError: no 0", "main"),
    ("p.py:9", "ValueError: no 1", "main"),
    ("p.py:9", "", "main"),
])  # fmt: skip
def test_an_exception_that_main_raises_again_belongs_to_its_thread(where: str, said: str, thread: str) -> None:
    """The main thread raises an error of another thread again, with the same line and text. The finding names the other
    thread. If the line or the text differs, it names main.
    """
    made = Made(1)
    made[0].add("ended", "end", thread="b", where=where, message=said)
    (found,) = made.findings(*raised(made, 0))
    assert (found.klass, found.culprit and found.culprit.thread) == ("CRASH:VALUEERROR", thread)


@pytest.mark.parametrize(("what", "captures", "thread"), [
    ("abandon", "main", "b"),
    ("end", "main", "main"),
    ("abandon", "b", "main"),
])  # fmt: skip
def test_an_error_within_a_capture_of_another_thread_is_the_first(what: str, captures: str, thread: str) -> None:
    """A thread raises while main captures, and main abandons the capture. The thread's error is the finding. If the
    capture ended well, or was not main's, it is main's error.
    """
    made = Made(1)
    form = {"stream": "main", "graph": "g", "mode": "global", "pool": "", "calls": 0, "thread": captures}
    made[0].note("capture", "g.capture", what="begin", **form)
    made[0].add("ended", "end", thread="b", where="p.py:7", message="ValueError: first")
    made[0].note("capture", "g.capture", what=what, **form)
    (found,) = made.findings(*raised(made, 0))
    assert (found.klass, found.culprit and found.culprit.thread) == ("CRASH:VALUEERROR", thread)


@pytest.mark.parametrize(("beside", "first"), [
    ([], 1),
    (["probe", "probe"], 1),
    (["injected", "probe", "injected"], 1),
    (["take", "take"], 0),
])  # fmt: skip
def test_records_that_are_no_ops_do_not_change_which_finding_is_first(beside: list[str], first: int) -> None:
    """Rank 0 raises after three ops, rank 1 after two ops and the records of `beside`. Probes and injected records do
    not count as ops.
    """
    fields = {"probe": {}, "injected": {"what": "delay 3 ms"}, "take": {"mailbox": "box", "how": "poll"}}
    made = Made(2)
    for kind in beside:
        made[1].note(kind, kind, **fields[kind])
    for rank in (0, 0, 0, 1, 1):
        made[rank].launch("kernel", "main")
    raised(made, 0, where="p.py:7")
    raised(made, 1)
    found = made.findings("raised", "raised")
    assert [one.culprit and one.culprit.rank for one in found] == [first, 1 - first]


@pytest.mark.parametrize(("what", "step", "site"), [("die", 3, "agree"), ("delay", 2, "kernel")])
def test_a_planted_death_is_reported_with_step_and_place(what: str, step: int, site: str) -> None:
    """A planted death happens before its op, so the journal's last op is of the step before. The finding names the step
    and site of the fault.
    """
    made = Made(1)
    made[0].step = 2
    made[0].launch("kernel", "main")
    made[0].step = 3
    made[0].note("injected", "agree", what=what)
    (found,) = made.findings("died")
    assert (found.klass, found.message) == ("DEATH:RANK", f"rank 0 died in step {step}")
    assert found.culprit is not None
    assert (found.culprit.step, found.culprit.site) == (step, site)


# ---- a message of the wrong shape


def crash_at_a_message(*, between: str = "", senders: int = 1, outside: bool = False) -> tuple[str, ...]:
    """Returns the details of the finding about rank 0, which raised after it took a message."""
    made = Made(3)
    for sender in range(1, senders + 1):
        if outside:
            change = (("to", 0), ("mailbox", "box"), ("content", (5,)))
            made[sender].note("injected", "agree", what="message", change=change)
        else:
            made[sender].post(0, (5,))
    made[1].post(0, (6,))
    made[0].learned(made[0].take(), (5,))
    if between == "poll":
        made[0].learned(made[0].take("poll"), None)
    elif between:
        made[0].launch("kernel", "main")
    raised(made, 0)
    return made.findings("raised", "finished", "finished")[0].details


@pytest.mark.parametrize("between", ["", "kernel"])
def test_the_report_names_the_sender_of_the_fatal_message(between: str) -> None:
    said = "rank 0 last took (5,) from box at get: sent by rank 1 at post, here.py:0, step 0"
    assert crash_at_a_message(between=between) == (said,)


def test_a_message_from_outside_is_reported_with_its_address() -> None:
    said = "rank 0 last took (5,) from box at get: sent from outside, as rank 1 reached agree[0]"
    assert crash_at_a_message(outside=True) == (said,)


def test_all_senders_of_equal_messages_are_reported() -> None:
    (said,) = crash_at_a_message(senders=2)
    assert said.endswith("sent by rank 1 at post, here.py:0, step 0 or by rank 2 at post, here.py:0, step 0")


def test_a_message_before_the_last_learned_value_is_not_reported() -> None:
    assert crash_at_a_message(between="poll") == ()


@pytest.mark.parametrize("more", [0, 1])
def test_a_message_that_was_taken_before_is_not_the_fatal_one(more: int) -> None:
    """Rank 1 sends equal messages in steps 0 and 1, and rank 0 raises after the second one, so it may be a victim. A
    third message may follow, which no rank takes.
    """
    made = Made(2)
    for made[1].step in range(2 + more):
        made[1].post(0, (5,))
    for _ in range(2):
        made[0].learned(made[0].take(), (5,))
    raised(made, 0)
    [found] = [one for one in made.findings("raised", "finished") if one.check == "fault"]
    assert found.details == ("rank 0 last took (5,) from box at get: sent by rank 1 at post, here.py:1, step 1",)
    assert found.ground == ()
    assert found.grounds == ("rank 0 raised; it may be a victim of another rank's value",)
