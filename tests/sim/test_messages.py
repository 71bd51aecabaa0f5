"""Tests messages from outside: messages that no rank sends, such as a request of a client. A world declares them, and
sends each one when a rank reaches a given op. Mailboxes deliver them like any other message, in every order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.ops import KIND, LEARNED_OUTCOME, posted
from dpsim.contract.program import Program
from dpsim.contract.world import At, Kill, Message, World
from dpsim.diagnose.injected import never_applied
from dpsim.sim.backend import SimBackend
from tests.judged import judge
from tests.programs import Scripted, set_to, world_of
from tests.sim.programs import everywhere, filled, see, seeded, usual_world
from tests.worlds.case import Case
from tests.worlds.explored import missed

FIRST = Message(0, "in", ("first", 1), by=0)
HEARD = Message(0, "in", "second", by=1, at=At("hear", 0))


def world(*messages: Message, ranks: int = 2) -> World:
    return replace(usual_world(ranks), messages=messages)


async def hears(rank: Rank) -> Any:
    """Rank 0 takes two messages, and forwards the first to rank 1."""
    if rank.rank == 0:
        rank.send(1, "in", await rank.mailbox("in").get("hear"), "tell")
        return await rank.mailbox("in").get("hear")
    return await rank.mailbox("in").get("hear")


def test_messages_reach_the_waiting_rank() -> None:
    came = {seen.learned[0] for seen in everywhere(hears, world(FIRST, HEARD))}
    assert came == {"second", ("first", 1)}, "messages sent at ops of two ranks arrive in either order"
    for seen in everywhere(hears, world(FIRST, FIRST._replace(content="later"))):
        assert seen.learned == ["later", ("first", 1)], "messages sent at ops of one rank arrive in its order"
        assert seen.classes == []


def test_a_message_from_outside_is_sent_when_the_rank_reaches_the_op() -> None:
    """A message from outside is sent when its rank reaches the op, so an earlier poll of rank 0 does not find it. If
    the message is sent at the start, the poll may find it.
    """

    async def script(rank: Rank) -> Any:
        if rank.rank:
            await rank.mailbox("go").get("go")
            rank.probe("here")
            return None
        early = await rank.mailbox("in").poll("early")
        rank.send(1, "go", 1, "send")
        return early, await rank.mailbox("in").get("late")

    here = Message(0, "in", 5, by=1, at=At("here", 0))
    assert {seen.learned[0] for seen in everywhere(script, world(here))} == {(None, 5)}
    twin = everywhere(script, world(here._replace(at=At())))
    assert {seen.learned[0] for seen in twin} >= {(5, None)} or any(seen.classes for seen in twin)


def test_a_message_from_outside_orders_what_its_sending_rank_had_learned() -> None:
    """Rank 0 reads a buffer, and rank 1 learns of it before it reaches the op of the message. So when rank 0 has the
    message, its overwrite comes after the read.
    """

    async def script(rank: Rank) -> Any:
        if rank.rank == 1:
            await rank.mailbox("in").get("hear")
            rank.probe("here")
            return
        main, side = rank.stream("main"), rank.stream("side")
        x = filled(main, [1])
        await x.read("read")
        rank.send(1, "in", "done", "post")
        await rank.mailbox("in").get("outside")
        side.launch("overwrite", set_to, writes=[x], args=(2,))

    for seen in everywhere(script, world(Message(0, "in", 1, by=1, at=At("here", 0)))):
        assert seen.classes == []


@pytest.mark.parametrize("right", [True, False])
def test_an_order_by_a_message_from_outside_is_an_order(right: bool) -> None:
    async def script(rank: Rank) -> Any:
        main, side = rank.stream("main"), rank.stream("side")
        x = filled(main, [1])
        copied = x.read("read")
        if right:
            await copied
        rank.probe("here")
        if not right:
            await rank.mailbox("in").get("outside")
        side.launch("overwrite", set_to, writes=[x], args=(2,))
        if not right:
            await copied

    for seen in everywhere(script, world(Message(0, "in", 1, by=0, at=At("here", 0)), ranks=1)):
        assert seen.classes == ([] if right else ["RACE:BUFFER"])


def test_unsent_and_unread_messages_are_reported() -> None:
    seen = see(hears, world(FIRST, HEARD))
    assert never_applied(world(FIRST, HEARD), seen.run) == []
    lost = [
        (HEARD._replace(at=At("hear", 4)), "message 'second' to in of rank 0: rank 1 never reached hear[4]"),
        (HEARD._replace(at=At("haer", 0)), "rank 1 never reached haer[0]"),
        (FIRST._replace(mailbox="im"), "to im of rank 0: rank 0 never polled this mailbox; it polls in"),
    ]
    for message, said in lost:
        told = world(FIRST, HEARD, message)
        [line] = never_applied(told, see(hears, told).run)
        assert said in line


def test_a_message_without_a_sender_is_refused() -> None:
    with pytest.raises(ValueError, match=r"World.messages: .*; there are ranks 0 to 1"):
        world(FIRST._replace(to=2))


def test_a_hang_counts_messages_from_outside() -> None:
    async def script(rank: Rank) -> Any:
        await rank.mailbox("in").get("one")
        await rank.mailbox("in").get("two")

    told = world(FIRST, ranks=1)
    [finding] = judge(told, see(script, told).run)
    assert (finding.klass, "1 was ever sent to it" in finding.message) == ("HANG:MAILBOX:NO_MESSAGE", True)


# ---- all schedules


class Post(Program[Any]):
    """Each rank does a list of actions. Its journal contains what it learned."""

    def __init__(self, *scripts: Sequence[tuple[Any, ...]]) -> None:
        self.scripts = scripts

    async def run(self, rank: Rank, prepared: Any) -> None:
        box = rank.mailbox("in")
        for what, *more in self.scripts[rank.rank]:
            if what == "tell":
                rank.send(more[0], "in", rank.rank, "tell")
            elif what == "poll":
                await box.poll("poll")
            elif what == "probe":
                rank.probe("probe")
            else:
                await box.get("get", idle=True)


def case(name: str, messages: Sequence[Message], *scripts: Sequence[tuple[Any, ...]], **more: Any) -> Case:
    return Case(name, world_of(len(scripts), messages=tuple(messages), **more), Post(*scripts))


POLLED = Message(0, "in", "polled", by=0, at=At("poll", 0))
PROBED = Message(0, "in", "probed", by=1, at=At("probe", 0))
CASES = [
    case("at the start", [FIRST], [("poll",), ("poll",)]),
    case("where it polls", [POLLED], [("poll",), ("poll",)]),
    case("two of one place", [FIRST, POLLED], [("poll",), ("get",), ("get",)]),
    case("two of two places", [FIRST, PROBED], [("poll",), ("get",), ("get",)], [("probe",)]),
    case("beside a rank's own", [PROBED], [("poll",), ("get",), ("get",)], [("probe",), ("tell", 0)]),
    case("where a rank dies", [PROBED], [("poll",), ("get",)], [("tell", 0), ("probe",)], kills=(Kill(1),)),
    case("the watcher dies", [FIRST, PROBED], [("poll",), ("get",)], [("probe",)], kills=(Kill(0),)),
]


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.name)
def test_dpor_sees_what_all_schedules_show(one: Case) -> None:
    assert missed(one) == (0, 0, 0)


def test_a_rank_that_dies_before_the_op_sends_no_message_from_outside() -> None:
    """A rank that dies before the op of a message never sends it. In no schedule does the other rank take a message
    that was not sent.
    """
    seen = set()
    for seed in range(40):
        one = SimBackend(choose=seeded(seed)).run_program(CASES[5].world, CASES[5].program, None)
        sent = any(posted(raw) == (0, "in", "probed") for raw in one.journals[1])
        heard = any(raw[KIND] == "learned" and raw[LEARNED_OUTCOME] == "probed" for raw in one.journals[0])
        assert sent or not heard
        seen.add((sent, heard))
    assert seen == {(False, False), (True, False), (True, True)}


def test_a_message_left_in_its_mailbox_is_reported() -> None:
    """If rank 0 takes one of two messages, the report names the other one. If it takes both, the report names none."""

    def takes_messages(count: int) -> Any:
        async def script(rank: Rank) -> None:
            for _ in range(count if rank.rank == 0 else 0):
                await rank.mailbox("in").get("hear")

        return script

    both = world(FIRST, FIRST._replace(content="later"))
    for count, left in (
        (1, ["message 'later' to in of rank 0: rank 0 polled this mailbox and never took the message"]),
        (2, []),
    ):
        done = SimBackend().run_program(both, Scripted(takes_messages(count)), None)
        assert never_applied(both, done) == left
