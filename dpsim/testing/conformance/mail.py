"""The parts `mail`, `polling` and `sleep`: ordered messages, polls without a message, gets without an end, and sleep.

While a message is in transit, time decides what a poll returns. So the part `mail` only polls mailboxes to which no
actor sends, and two backends have equal results. The part `polling` polls until a message arrives.
"""

from __future__ import annotations

from dpsim.contract.interface import Frozen, Rank
from dpsim.testing.conformance.ground import Round, expect, refused

SLEEP_NS = 20_000_000
MOMENT_NS = 20_000_000
"""The time-out of a get that receives nothing."""

ENOUGH_NS = 30_000_000_000
"""The time-out of a get that receives a message."""

PATIENCE = 2_000
"""A message must arrive within this number of polls, with a pause after each."""


async def mail(at: Round) -> None:
    """Three messages around the ring, and two to itself. A time-out only passes if no message can arrive."""
    rank, ring = at.rank, at.host.ranks
    after, before = ring[(at.host.index + 1) % len(ring)], ring[(at.host.index - 1) % len(ring)]
    for name in ("left-over", "empty"):
        law = (
            "a poll returns None if the mailbox is empty. A wrong backend delivers a message that no "
            "rank took in an earlier run"
        )
        expect(f"a poll of mailbox {name}", await rank.mailbox(name).poll(f"conformance.{name}"), None, law)
    for number in range(3):
        rank.send(after, "ring", _message(rank.rank, number, at.step), "conformance.send")
    rank.send(rank.rank, "own", "to myself", "conformance.send.own")
    for number in range(3):
        law = (
            "the messages of one sender arrive unchanged, in the order of its sends. A wrong backend "
            "reorders or converts them"
        )
        got = await rank.mailbox("ring").get("conformance.get")
        expect(f"message {number} of 3", got, _message(before, number, at.step), law)
    expect("a message to oneself", await rank.mailbox("own").get("conformance.get.own"), "to myself", law)
    vain = await rank.mailbox("empty").get("conformance.get.vain", timeout_ns=MOMENT_NS)
    expect(
        "a get from a mailbox to which no actor sends",
        vain,
        None,
        (
            "get returns None when its time-out passes without a message. A wrong backend returns a "
            "message of another mailbox"
        ),
    )
    rank.send(rank.rank, "own", "again", "conformance.send.again")
    got = await rank.mailbox("own").get("conformance.get.again", timeout_ns=ENOUGH_NS)
    expect(
        "a get with a time-out",
        got,
        "again",
        ("get returns the next message if one arrives before the time-out. A wrong backend returns None all the same"),
    )
    endless = lambda: rank.mailbox("own").get("refused", idle=True, timeout_ns=1)  # noqa: E731
    refused(ValueError, "an idle get with a time-out", endless)
    refused(ValueError, "the message None", lambda: rank.send(after, "ring", None, "refused"))


async def serve(rank: Rank) -> None:
    """The last part: the first rank hands out tasks, the others serve without end, and a message to each remains."""
    group = rank.host("dp_cpu")
    await group.barrier(site="conformance.rounds-done")  # no rank polls the mailbox "left-over" any more
    if group.index != 0:
        while True:
            task = await rank.mailbox("tasks").get("conformance.serve", idle=True)
            rank.send(group.ranks[0], f"done.{rank.rank}", task, "conformance.done")
    for other in group.ranks[1:]:
        rank.send(other, "left-over", "for no rank", "conformance.leave")
        for number in range(2):
            rank.send(other, "tasks", number, "conformance.task")
            got = await rank.mailbox(f"done.{other}").get("conformance.answer")
            expect(
                f"the answer of rank {other}",
                got,
                number,
                ("an idle get takes messages like any other get. A wrong backend loses or reorders them"),
            )


async def polling(at: Round) -> None:
    """Polls until a message arrives."""
    rank, ring = at.rank, at.host.ranks
    rank.send(ring[(at.host.index + 1) % len(ring)], "polled", ("round", at.step), "conformance.send.polled")
    got: Frozen = None
    for _ in range(PATIENCE):
        got = await rank.mailbox("polled").poll("conformance.poll")
        if got is not None:
            break
        await rank.sleep(5_000_000, "conformance.pause")
    expect(
        "a poll",
        got,
        ("round", at.step),
        (
            "a poll returns the next message once it has arrived. A wrong backend returns None for "
            "good, or another message"
        ),
    )


async def sleep(at: Round) -> None:
    """Sleeps on the host. The case measures the time from outside. A turn is a sleep of no time."""
    await at.rank.sleep(SLEEP_NS, "conformance.sleep")
    await at.rank.turn("conformance.turn")


def _message(sender: int, number: int, step: int) -> Frozen:
    return ("letter", sender, (number, step, 0.5, True, None, ()))
