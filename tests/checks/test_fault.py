"""Ranks that raise: who is to blame, and what comes first."""

from __future__ import annotations

import pytest

from tests.checks.handmade import Made


def raised(made: Made, *ranks: int, where: str = "p.py:9") -> list[str]:
    """These ranks raise; the ends of all."""
    for rank in ranks:
        made[rank].add("raised", "ValueError", where=where, message=f"no {rank}")
    return ["raised" if rank in ranks else "finished" for rank in range(len(made.hands))]


def test_one_that_raised_is_the_culprit() -> None:
    made = Made(3)
    [found] = made.findings(*raised(made, 1))
    assert (found.klass, found.message) == ("CRASH:VALUEERROR", "rank 1 raised ValueError in step 0: no 1")
    assert str(found.culprit) == "rank 1, step 0, ValueError at p.py:9"


def test_those_that_raised_alike_are_told_together_and_none_is_blamed() -> None:
    made = Made(3)
    [found] = made.findings(*raised(made, 0, 2))
    assert (found.culprit, found.message) == (None, "ranks 0, 2 raised ValueError in step 0 at p.py:9: no 0")
    assert found.details == ("rank 0: no 0", "rank 2: no 2")


@pytest.mark.parametrize("differ", ["step", "place"])
def test_those_that_raised_in_another_step_or_place_are_told_apart(differ: str) -> None:
    made = Made(2)
    made[1].step = int(differ == "step")
    raised(made, 0)
    raised(made, 1, where="p.py:8" if differ == "place" else "p.py:9")
    assert [one.culprit and one.culprit.rank for one in made.findings("raised", "raised")] == [0, 1]


def test_what_another_thread_did_later_is_not_what_was_raised() -> None:
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
def test_what_main_passes_on_is_its_thread_s(where: str, said: str, thread: str) -> None:
    """What another thread raised elsewhere, or says otherwise, is not what main raised."""
    made = Made(1)
    made[0].add("ended", "end", thread="b", where=where, message=said)
    (found,) = made.findings(*raised(made, 0))
    assert (found.klass, found.culprit and found.culprit.thread) == ("CRASH:VALUEERROR", thread)


@pytest.mark.parametrize(("beside", "first"), [
    ([], 1),
    (["probe", "probe"], 1),
    (["injected", "probe", "injected"], 1),
    (["take", "take"], 0),
])  # fmt: skip
def test_what_is_no_op_does_not_change_which_finding_is_first(beside: list[str], first: int) -> None:
    """Rank 0 raises after three ops, rank 1 after two and what comes beside."""
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
