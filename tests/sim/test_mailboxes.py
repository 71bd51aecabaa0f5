"""Tests mailboxes. Messages of one sender arrive in order, and those of several senders in any order. Only a get that
the program declares as idle may wait without end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpsim.contract.interface import Rank
from dpsim.contract.world import CommunicatorSpec
from dpsim.diagnose.words import text
from tests.programs import set_to
from tests.sim.programs import Twins, everywhere, filled, numbers, see, usual_world

twins = Twins()

PAIRED = usual_world(4)
PAIRED = replace(PAIRED, communicators=(*PAIRED.communicators, CommunicatorSpec("pair", "pair", "host", (2, 3))))

NO_MESSAGE = "HANG:MAILBOX:NO_MESSAGE"


@twins(NO_MESSAGE, learned=[9, 3])
async def a_question_gets_its_answer(rank: Rank, right: bool) -> Any:
    if rank.rank == 0:
        rank.send(1, "in", ("ask", 3), "ask")
        return await rank.mailbox("in").get("answer")
    _, number = await rank.mailbox("in").get("question")  # type: ignore[misc,str-unpack]
    if right:
        rank.send(0, "in", number * number, "answer")  # type: ignore[operator]
    return number


@twins(NO_MESSAGE, learned=[None, (1, 2, 3)])
async def messages_of_one_sender_arrive_in_order(rank: Rank, right: bool) -> Any:
    """Rank 1 takes three messages in the order of their sends. In the faulty twin rank 0 sends only two."""
    if rank.rank == 0:
        for number in (1, 2, 3) if right else (1, 2):
            rank.send(1, "in", number, "send")
        return None
    box = rank.mailbox("in")
    return (await box.get("get"), await box.get("get"), await box.get("get"))


@twins(NO_MESSAGE, learned=[None, "rest"])
async def an_idle_get_is_no_hang(rank: Rank, right: bool) -> Any:
    if rank.rank:
        rank.decide("learned", "rest", "own")
        await rank.mailbox("in").get("rest", idle=right)


@twins(NO_MESSAGE, learned=[1, None])
async def mailboxes_of_one_rank_are_separate(rank: Rank, right: bool) -> Any:
    if rank.rank == 0:
        return await rank.mailbox("in").get("get")
    rank.send(0, "in" if right else "out", 1, "send")
    return None


@twins("DISAGREEMENT:ORDER", world=PAIRED, modes=["timed"])
async def messages_of_two_senders_have_no_order(rank: Rank, right: bool) -> Any:
    """Two ranks get the same messages from two senders, and decide on the sorted messages. In the faulty twin they
    decide on the order of arrival, which may differ.
    """
    if rank.rank < 2:
        for to in (2, 3) if rank.rank else (3, 2):
            await rank.sleep(80_000 * (to == 2 + rank.rank), "sleep")
            rank.send(to, "in", rank.rank, "tell")
        return
    box = rank.mailbox("in")
    heard = [await box.get("hear"), await box.get("hear")]
    rank.decide("order", tuple(sorted(heard) if right else heard), "pair")  # type: ignore[type-var]


@twins("DISAGREEMENT:FOUND", learned=[None] * 2, modes=["timed"])
async def a_poll_does_not_wait(rank: Rank, right: bool) -> Any:
    """A get finds the message on both ranks. In the faulty twin the ranks poll, so what they find depends on time."""
    rank.send(rank.rank, "in", 1, "send")
    await rank.sleep(200_000 * rank.rank, "sleep")
    found = await (rank.mailbox("in").get("look") if right else rank.mailbox("in").poll("look"))
    rank.decide("found", found, "h")


@twins("RACE:BUFFER", learned=[(2,), None])
async def a_take_is_ordered_after_the_post(rank: Rank, right: bool) -> Any:
    """A message orders what its sender did before and what its receiver does after. Rank 1 answers rank 0, so the
    answer orders two streams of rank 0. In the faulty twin rank 0 posts before it has read.
    """
    if rank.rank == 1:
        rank.send(0, "in", await rank.mailbox("in").get("get"), "back")
        return None
    main, side = rank.stream("main"), rank.stream("side")
    x = filled(main, [1])
    copied = x.read("read")
    if right:
        await copied
    rank.send(1, "in", "done", "post")
    await rank.mailbox("in").get("hear")
    side.launch("overwrite", set_to, writes=[x], args=(2,))
    if not right:
        await copied
        return None
    return numbers(await x.read("late", side))


@twins("CRASH:VALUEERROR", learned=[None])
async def none_is_no_message(rank: Rank, right: bool) -> Any:
    """A program cannot send None, because a poll returns None for an empty mailbox."""
    rank.send(0, "in", 0 if right else None, "send")


@twins("CRASH:VALUEERROR", learned=[None])
async def a_message_goes_to_an_existing_rank(rank: Rank, right: bool) -> Any:
    rank.send(0 if right else 1, "in", 0, "send")


test_the_healthy_program_holds, test_the_wrong_twin_is_caught = twins.tests()


async def three_senders_one_receiver(rank: Rank) -> Any:
    if rank.rank < 3:
        for number in range(3):
            rank.send(3, "in", (rank.rank, number), "tell")
        return None
    box = rank.mailbox("in")
    return tuple([await box.get("hear") for _ in range(9)])


def test_messages_of_senders_interleave_in_order() -> None:
    heard = [seen.learned[3] for seen in everywhere(three_senders_one_receiver, usual_world(4))]
    for order in heard:
        assert sorted(order) == [(sender, number) for sender in range(3) for number in range(3)]
        for sender in range(3):
            assert [number for who, number in order if who == sender] == [0, 1, 2]
    assert len({*heard}) > 3, "without time, messages of several senders arrive in any order"


def test_a_message_takes_its_time() -> None:
    async def script(rank: Rank) -> Any:
        rank.send(0, "in", 1, "send")
        early = await rank.mailbox("in").poll("early")
        await rank.sleep(100_000, "sleep")
        return early, await rank.mailbox("in").poll("late")

    assert see(script, usual_world(1)).learned == [(None, 1)]


def test_a_hang_at_a_mailbox_counts_its_messages() -> None:
    async def script(rank: Rank) -> None:
        if rank.rank == 0:
            rank.send(1, "in", 1, "send")
        else:
            await rank.mailbox("in").get("first")
            await rank.mailbox("in").get("second")

    for seen in everywhere(script):
        [found] = seen.findings
        assert (found.klass, found.culprit) == (NO_MESSAGE, None)
        assert text(found.message).startswith(
            "rank 1 waits for a message in in (second, step 0); 1 was ever sent to it"
        )
        assert text(found.message).endswith("; rank 0 may owe it")
