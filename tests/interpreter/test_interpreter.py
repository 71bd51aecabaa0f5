"""Tests of the interpreter, on scripts whose outcomes a reader of the contract can list by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interpreter.interpreter import Outcome, interpret
from tests.interpreter.language import Instruction, Script

HOSTS = (("h", (0, 1)),)
DEVICES = (("d", (0, 1)),)


def call(handle: str, op: str, shape: tuple[Any, ...]) -> tuple[Instruction, Instruction]:
    """Returns the instructions of a host collective or transfer that is awaited at once."""
    return ("start", handle, "h", op, shape), ("await", handle)


def written(buffer: str, stream: str) -> tuple[Instruction, Instruction]:
    """Returns the instructions that allocate a buffer of one element and write the number into it."""
    return ("alloc", buffer, stream, 1), ("fill", stream, (buffer, 0, 1))


def learned(script: Script) -> set[tuple[Any, ...]]:
    """Returns the results of all ranks' calls in the executions in which all ranks finished."""
    return {tuple(tuple(value for _, value in noted) for _, noted in one) for one in finished(script)}


def finished(script: Script) -> set[Outcome]:
    return {one for one in interpret(script).outcomes if all(end == "finished" for end, _ in one)}


def ends(script: Script) -> set[tuple[str, ...]]:
    return {tuple(end for end, _ in one) for one in interpret(script).outcomes}


def test_a_poll_may_find_the_message_or_not() -> None:
    assert learned(Script(((("post", 1, "p"),), (("poll", "p"),)))) == {((), (None,)), ((), (2,))}


def test_messages_of_one_sender_stay_in_order_and_those_of_two_do_not() -> None:
    post, get = ("post", 0, "p"), ("get", "p")
    one = Script(((get, get), (post, ("poll", "q"), post)))
    assert {first for (first, *_), _ in learned(one)} == {3}
    two = Script(((get, get), (post,), (post,)))
    assert {taken for taken, *_ in learned(two)} == {(3, 4), (4, 3)}


def test_a_receiver_depends_on_the_root_only() -> None:
    """Runs a broadcast in which the member that ends first sends a message to the other, which polls before it arrives.
    Only the root can end before the other member has arrived.
    """
    comes, tells, looks = call("w", "broadcast", (1, 0)), ("post", 1, "p"), ("poll", "p")
    root_first = Script(((*comes, tells), (looks, *comes)), HOSTS)
    assert {told for _, (told, _) in learned(root_first)} == {None, 7}
    receiver_first = Script(((looks, *comes), (*comes, ("post", 0, "p"))), HOSTS)
    assert {told for (told, _), _ in learned(receiver_first)} == {None}


def test_the_root_may_wait_for_the_others_too() -> None:
    script = Script((call("w", "broadcast", (1, 0)), ()), HOSTS)
    assert ends(script) == {("finished", "finished"), ("blocked", "finished")}


@pytest.mark.parametrize(
    ("op", "shape", "may_finish"),
    [
        ("barrier", (), False),
        ("all_reduce", (1,), False),
        ("all_reduce", (0,), True),
        ("reduce", (1, 0), False),
        ("reduce", (1, 1), True),
        ("reduce", (0, 0), True),
        ("gather", (1, 0), False),
        ("gather", (1, 1), True),
        ("gather", (0, 0), True),
        ("scatter", (1, 0), True),
        ("scatter", (1, 1), False),
        ("scatter", (0, 1), True),
        ("all_gather", (1, 0), True),
        ("all_gather", (1, 1), False),
        ("reduce_scatter", (0, 1), True),
        ("all_to_all", ((1, 1), (0, 1)), True),
        ("all_to_all", ((1, 0), (1, 1)), False),
        ("send", (1, 1), True),
        ("recv", (1, 1), False),
    ],
)
def test_some_collectives_of_rank_0_finish_without_rank_1(op: str, shape: tuple[Any, ...], may_finish: bool) -> None:
    assert (("finished", "finished") in ends(Script((call("w", op, shape), ()), HOSTS))) == may_finish


def test_of_two_sends_the_one_may_be_eager_and_the_other_not() -> None:
    script = Script(((*call("a", "send", (1, 1)), *call("b", "send", (1, 1))), ()), HOSTS)
    assert {len(noted) for (_, noted), _ in interpret(script).outcomes} == {0, 1, 2}


def test_an_event_that_was_waited_for_has_passed() -> None:
    asked = (*written("x", "s"), ("record", "e", "s"), ("query", "e"), ("sync", "e"), ("query", "e"))
    assert learned(Script((asked,))) == {((True, (), True),), ((False, (), True),)}


def test_streams_run_side_by_side_until_one_waits() -> None:
    kernel = ("fill", "t", ("x", 0, 1))
    assert interpret(Script(((*written("x", "s"), kernel),))).races
    assert not interpret(Script(((*written("x", "s"), ("join", "t", "s"), kernel),))).bad
    assert not interpret(Script(((*written("x", "s"), ("read", ("x", 0, 1), None), kernel),))).bad


def test_views_of_other_elements_do_not_conflict() -> None:
    one = (("alloc", "x", "s", 2), ("record", "e", "s"), ("wait", "t", "e"), ("fill", "s", ("x", 0, 1)))
    assert not interpret(Script(((*one, ("fill", "t", ("x", 1, 2))),))).bad
    assert interpret(Script(((*one, ("fill", "t", ("x", 0, 2))),))).races


def test_the_interpreter_reports_unwritten_memory() -> None:
    assert interpret(Script(((("alloc", "x", "s", 1), ("read", ("x", 0, 1), None)),))).unwritten
    assert not interpret(Script(((("alloc", "x", "s", 0), ("read", ("x", 0, 0), None)),))).bad


@pytest.mark.parametrize(
    ("between", "racy"), [((), True), ((("mark", "x", "t"),), False), ((("join", "s", "t"),), False)]
)
def test_memory_given_back_may_be_in_the_next_buffer(between: tuple[Instruction, ...], racy: bool) -> None:
    used = (*written("x", "s"), ("join", "t", "s"), ("fill", "t", ("x", 0, 1)))
    script = Script(((*used, *between, ("free", "x"), *written("y", "s")),))
    assert bool(interpret(script).races) == racy


def test_a_mark_covers_the_work_that_the_stream_has_when_the_buffer_is_freed() -> None:
    used = (*written("x", "s"), ("join", "t", "s"), ("mark", "x", "t"), ("fill", "t", ("x", 0, 1)))
    assert not interpret(Script(((*used, ("free", "x"), *written("y", "s")),))).bad


def test_transfers_of_one_communicator_keep_their_order_on_any_stream() -> None:
    one = (*written("x", "s"), ("transfer", "d", "s", ("recv", ("x", 0, 1), 1)))
    other = (*written("x", "s"), ("transfer", "d", "s", ("send", ("x", 0, 1), 0)))
    again = (("transfer", "d", "t", ("recv", ("x", 0, 1), 1)),)
    assert not interpret(Script((one + again, other + other[2:]), DEVICES)).races


def test_two_that_send_first_need_a_group() -> None:
    def rank(peer: int, group: bool) -> tuple[Instruction, ...]:
        both = (("send", ("x", 0, 1), peer), ("recv", ("y", 0, 1), peer))
        calls: tuple[Instruction, ...] = (("group", "d", "s", both),)
        if not group:
            calls = tuple(("transfer", "d", "s", one) for one in both)
        return (*written("x", "s"), ("alloc", "y", "s", 1), *calls)

    assert ends(Script((rank(1, True), rank(0, True)), devices=DEVICES)) == {("finished", "finished")}
    assert ("blocked", "blocked") in ends(Script((rank(1, False), rank(0, False)), devices=DEVICES))


def test_with_one_slot_two_communicators_may_block_each_other() -> None:
    devices = (("c", (0, 1)), ("d", (0, 1)))

    def rank(streams: tuple[str, str]) -> tuple[Instruction, ...]:
        calls = [
            ("device", kind, on, "all_reduce", (1,), ((kind, 0, 1),)) for kind, on in zip("cd", streams, strict=True)
        ]
        return (*written("c", streams[0]), *written("d", streams[1]), *calls)

    side_by_side = (rank(("s", "t")),) * 2
    assert ("blocked", "blocked") in ends(Script(side_by_side, devices=devices, residency=1))
    assert ends(Script(side_by_side, devices=devices, residency=2)) == {("finished", "finished")}
    assert ends(Script((rank(("s", "s")),) * 2, devices=devices, residency=1)) == {("finished", "finished")}


def test_a_rank_may_die_between_two_messages() -> None:
    script = Script(((("idle", "p"), ("idle", "p")), (("post", 0, "p"), ("post", 0, "p"))), mortal=(1,))
    assert {len(noted) for (_, noted), _ in interpret(script).outcomes} == {0, 1, 2}


def test_a_rank_that_dies_in_a_collective_may_block_its_peers_or_none() -> None:
    """Runs a rank that sends a message after it has started its collective, and then dies before its await returns."""
    comes = (("start", "w", "h", "all_reduce", (1,)), ("post", 0, "p"), ("await", "w"))
    script = Script(((("get", "p"), *call("w", "all_reduce", (1,))), comes), HOSTS, mortal=(1,))
    heard = {(end, len(noted)) for (end, noted), _ in interpret(script).outcomes}
    assert heard == {("blocked", 0), ("blocked", 1), ("finished", 2)}
