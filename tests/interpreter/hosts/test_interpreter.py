"""Tests of the interpreter of hosts, on scripts whose outcomes a reader of the contract can list by hand.

An expected outcome has, for each rank, what its calls learned, and its end if it did not finish.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.interpreter.hosts.interpreter import interpret
from tests.interpreter.hosts.language import ABORTED
from tests.interpreter.language import GONE, Instruction, Script

Said = tuple[Instruction, ...]

ABORT = ("abort", "h")
AWAIT, ASKS, UNTIL = ("await", "w"), ("asks", "w"), ("until", "w", 50)
SUM, MEET = ("start", "w", "h", "all_reduce", (1,)), ("start", "w", "h", "barrier", ())
FROM_0, FROM_1 = (("start", "w", "h", "broadcast", (1, root)) for root in (0, 1))
TO_0, TO_1, HEAR_0, HEAR_1 = (
    ("start", "w", "h", op, (1, peer)) for op, peer in (("send", 0), ("send", 1), ("recv", 0), ("recv", 1))
)
MADE = (("start", "m", "g", "make", ()), ("await", "m"))
GET, TELL_0, TELL_1 = ("get", "p"), ("post", 0, "p"), ("post", 1, "p")
OPEN, JOIN = ("open", "s", 1), ("enter", "s", 1, None)
PUT, FETCH, CLOSE, DROP = ("put", "s", "k"), ("fetch", "s", "k", None), ("close", "s"), ("drop", "s", "k")


def receives(number: int) -> Instruction:
    """A receive from any source, and later its await."""
    return ("start", f"a{number}", "h", "any", (1,))


def outcomes(*ranks: Said, mortal: tuple[int, ...] = ()) -> set[tuple[Any, ...]]:
    everybody = tuple(range(len(ranks)))
    allowed = interpret(Script(ranks, (("h", everybody), ("g", (0, 1))), mortal=mortal))
    assert allowed.complete
    return {
        tuple((*(value for _, value in noted), *[end] * (end != "finished")) for end, noted in outcome)
        for outcome in allowed.outcomes
    }


def test_a_part_that_no_host_looks_at_ends_before_its_peer_aborts() -> None:
    """Runs an abort that comes 100 ms after both calls, and a host that looks first 400 ms after them."""
    looks = (SUM, ("within", "p", 400), ASKS)
    aborts = (SUM, ("within", "p", 100), ABORT)
    assert outcomes(looks, aborts) == {((None, True), (None,))}


def test_a_group_that_no_host_awaits_is_made() -> None:
    assert outcomes(MADE, MADE[:1]) == {(((),), ())}
    assert outcomes(MADE, ()) == {(("blocked",), ())}


@pytest.mark.parametrize(("sends", "receives", "got"), [(TO_1, HEAR_0, (1,)), (FROM_0, FROM_0, (1,))])
def test_a_part_that_does_not_depend_on_the_rank_ends_after_its_abort(
    sends: Instruction, receives: Instruction, got: Any
) -> None:
    late = (("within", "q", 50), receives, AWAIT)
    assert outcomes((sends,), late, (ABORT,)) >= {((), (None, got), ())}
    rests = {one[1] for one in outcomes((sends,), late, (ABORT,))}
    assert rests == ({(None, got)} if sends is TO_1 else {(None, got), (None, "blocked")})


def test_a_receiver_may_wait_for_a_member_that_aborts_without_its_call() -> None:
    assert outcomes((FROM_0, AWAIT), (FROM_0,), (ABORT,)) == {(((1,),), (), ()), (("blocked",), (), ())}
    assert outcomes((FROM_0, AWAIT), (FROM_0,), (FROM_0, ABORT)) == {(((1,),), (), ())}


def test_a_rank_learns_nothing_after_its_own_abort() -> None:
    peer = (SUM,)
    for looks in (ASKS, UNTIL, AWAIT):
        assert {mine for mine, _ in outcomes((SUM, ABORT, looks), peer)} == {(ABORTED,)}
        assert {mine for mine, _ in outcomes((SUM, ASKS, ABORT, looks), peer)} == {(False, ABORTED), (True, ABORTED)}
    assert outcomes((SUM, AWAIT, ABORT, ASKS), peer) == {(((3,), ABORTED), ())}
    assert outcomes((ABORT, ABORT, SUM, AWAIT), ()) == {((ABORTED,), ())}


def test_a_thread_that_waits_at_the_abort_may_have_its_result() -> None:
    waits = (("spawn", "t"), SUM, AWAIT, ("thread", "t"), ABORT)
    assert outcomes(waits, (SUM,)) == {(((3,),), ()), ((ABORTED,), ())}
    assert outcomes(waits, ()) == {((ABORTED,), ())}


def test_a_peer_may_end_until_the_rank_leaves() -> None:
    late = (GET, MEET, AWAIT)
    assert outcomes((MEET, AWAIT), (MEET, ABORT)) == {(((),), ()), (("blocked",), ())}
    assert outcomes(late, (MEET, ABORT, TELL_0)) == {((3, ()), ()), ((3, "blocked"), ())}
    assert len(outcomes(late, (MEET, ABORT, ("sleep", 5), TELL_0))) == 2
    assert outcomes(late, (MEET, ABORT, ("within", "q", 5), TELL_0)) == {
        ((11, ()), (None,)),
        ((11, "blocked"), (None,)),
    }


def test_an_abort_reaches_no_peer_as_an_exception_and_a_peer_aborts_itself() -> None:
    assert outcomes((SUM, ("within", "p", 9), ABORT, AWAIT), (ABORT,)) == {((None, ABORTED), ())}


def test_a_message_that_no_rank_has_received_is_lost_when_its_sender_leaves() -> None:
    late = (("within", "q", 50), receives(1), ("await", "a1"))
    assert outcomes(late, (TO_0, ABORT), ()) == {((None, (1, 2)), (), ()), ((None, "blocked"), (), ())}
    assert outcomes(late[1:], (TO_0, ABORT), (TO_0,)) == {(((1, 2),), (), ()), (((2, 3),), (), ())}


def test_receives_from_any_source_take_in_the_order_of_their_calls() -> None:
    both = (receives(1), receives(2), ("await", "a2"), ("await", "a1"))
    assert outcomes(both, (TO_0,), (TO_0,)) == {(((2, 3), (1, 2)), (), ()), (((1, 2), (2, 3)), (), ())}


def test_after_a_time_out_each_call_that_could_be_over_is_over() -> None:
    go, looks = ("post", 1, "go"), (FROM_0, ("get", "go"), ASKS)
    assert {mine[-1] for _, mine in outcomes((FROM_0, go), looks)} == {False, True}
    assert {mine[-1] for _, mine in outcomes((FROM_0, go), (*looks[:2], ("within", "q", 20), ASKS))} == {True}
    assert {mine[-1] for _, mine in outcomes((FROM_0, go), (*looks[:2], ("sleep", 20), ASKS))} == {False, True}


def test_a_part_that_is_not_over_after_a_time_out_waits_for_all() -> None:
    root = (FROM_0, ("within", "q", 20), ASKS, AWAIT)
    assert outcomes(root, ()) == {((None, True, (1,)), ()), ((None, False, "blocked"), ())}
    assert outcomes((FROM_0, UNTIL, AWAIT), ()) == {((True, (1,)), ()), ((False, "blocked"), ())}


def test_a_wait_with_a_limit_says_whether_the_call_is_over() -> None:
    assert outcomes((SUM, UNTIL, AWAIT), (SUM,)) == {((True, (3,)), ())}
    assert outcomes((SUM, UNTIL, AWAIT), (GET, SUM)) == {((False, "blocked"), ("blocked",))}
    assert outcomes((MEET, UNTIL, TELL_1, AWAIT), (GET, MEET)) == {((False, ()), (6,))}
    assert outcomes((SUM, UNTIL, ABORT, UNTIL), ()) == {((False, ABORTED), ())}


def test_what_a_rank_has_begun_completes_when_it_dies() -> None:
    found = outcomes((GET, MEET, AWAIT), (MEET, TELL_0), mortal=(1,))
    assert {mine for mine, _ in found} == {("blocked",), (3, ())}
    watches = (("watch", 1, "p"), GET, GET)
    assert outcomes(watches, (TELL_0,), mortal=(1,)) >= {((3, GONE + 1), ("died",)), ((GONE + 1, "blocked"), ("died",))}


def test_an_abort_and_a_death_of_one_rank_are_both_felt() -> None:
    found = outcomes((SUM, AWAIT), (SUM, ABORT), mortal=(1,))
    assert {mine for mine, _ in found} == {((3,),), ("blocked",)}


def test_values_of_one_rank_arrive_in_order_and_the_last_one_counts() -> None:
    puts = (OPEN, PUT, ("poll", "q"), PUT, ("add", "s", "k", 1))
    assert outcomes(puts) == {((True, None, 31),)}
    assert outcomes((*puts[:4], FETCH)) == {((True, None, 6),), ((True, None, 30),)}


def test_a_value_may_arrive_late_for_others() -> None:
    reads = (JOIN, GET, ("fetch", "s", "k", 0))
    assert {mine[-1] for _, mine in outcomes((OPEN, PUT, TELL_1), reads)} == {None, 6}


def test_calls_that_read_and_change_are_one_step() -> None:
    one = (("add", "s", "k", 1),)
    assert {(here[-1], there[-1]) for here, there in outcomes((OPEN, *one), (JOIN, *one))} == {(1, 2), (2, 1)}
    swaps = (("swap", "s", "k", "", 7), ("swap", "s", "k", 7, 8), ("swap", "s", "k", 7, 9), DROP, DROP)
    assert outcomes((OPEN, *swaps)) == {((True, 7, 8, 8, True, False),)}


def test_a_closed_store_answers_none_and_frees_its_port() -> None:
    assert {mine[-1] for _, mine in outcomes((OPEN, CLOSE), (JOIN, FETCH))} == {None, "blocked"}
    again = (OPEN, ("open", "o", 1), CLOSE, ("open", "n", 1))
    assert outcomes(again) == {((True, False, True),)}
    assert outcomes((OPEN,), (("enter", "s", 1, 9), FETCH)) == {((True,), (True, "blocked"))}


@pytest.mark.parametrize(
    ("call", "late"), [(("enter", "s", 1, 9), False), (("fetch", "s", "k", 9), None)], ids=["enter", "fetch"]
)
def test_a_call_on_a_store_may_time_out(call: Instruction, late: object) -> None:
    before = (OPEN,) if call[0] == "fetch" else ()
    assert outcomes((*before, call)) == {((*[True] * len(before), late),)}


def test_a_flag_orders_threads() -> None:
    begins, thread = (("spawn", "t"), ("poll", "q")), (("thread", "t"), TELL_1, ("set", "f"))
    assert {mine for _, mine in outcomes((*begins, ("flag", "f"), TELL_1, *thread), (GET, GET))} == {(2, 6)}
    assert {mine for _, mine in outcomes((*begins, TELL_1, *thread), (GET, GET))} == {(2, 6), (6, 2)}
