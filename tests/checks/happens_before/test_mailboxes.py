"""Tests what a mailbox knows after its host took messages. The result is compared with the list of all explanations:
the assignments of taken messages to posts.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from dpsim.checks.happens_before.clocks import Masks
from dpsim.checks.happens_before.mailboxes import MANY, MailboxHistory, MailOrder, Posts
from tests.records import raw

Lines = dict[int, list[Any]]
"""Maps each sender to its posts, in order."""


def box_of(lines: Lines, lossy: Sequence[int] = ()) -> tuple[MailOrder, MailboxHistory]:
    mail = MailOrder(lossy)
    for sender, contents in lines.items():
        for content in contents:
            mail.add(sender, raw("post", "post", to=9, mailbox="box", content=content))
    return mail, mail.box(9, "box")


def post(mail: MailOrder, sender: int, clock: int) -> None:
    mail.post(sender, raw("post", "post", to=9, mailbox="box", content=None), clock, [])


def explanations(lines: Lines, takes: Sequence[Any]) -> list[dict[int, int]]:
    """Returns, for each explanation of these takes, the number of taken posts of each sender."""
    found: set[tuple[int, ...]] = {(0,) * len(lines)}
    for message in takes:
        found = {
            (*taken[:index], taken[index] + 1, *taken[index + 1 :])
            for taken in found
            for index, line in enumerate(lines.values())
            if taken[index] < len(line) and line[taken[index]] == message
        }
    return [dict(zip(lines, taken, strict=True)) for taken in found]


def history(rng: random.Random, contents: str) -> tuple[Lines, list[Any]]:
    """Draws the posts of some senders, and messages that were taken from them in some order of arrival."""
    lines: Lines = {
        sender: [rng.choice(contents) for _ in range(rng.randint(0, 4))] for sender in range(rng.randint(1, 4))
    }
    left = {sender: list(line) for sender, line in lines.items() if line}
    takes = []
    for _ in range(rng.randint(0, sum(map(len, lines.values())))):
        sender = rng.choice(list(left))
        takes.append(left[sender].pop(0))
        if not left[sender]:
            del left[sender]
    return lines, takes


def knowledge(rng: random.Random, lines: Lines) -> dict[int, list[int]]:
    """Draws what each post knows, as a bit mask: the post itself, all earlier posts of its sender, and some of eight
    facts.
    """
    known: dict[int, list[int]] = {}
    for sender, line in lines.items():
        clock, known[sender] = 0, [0]
        for number in range(len(line)):
            clock |= 1 << 8 + 8 * sender + number
            if rng.random() < 0.7:
                clock |= 1 << rng.randrange(8)
            known[sender].append(clock)
    return known


def in_all(known: dict[int, list[int]], lines: Lines, takes: Sequence[Any]) -> int:
    """Returns the bits that are known in every explanation."""
    common = -1
    for taken in explanations(lines, takes):
        mask = 0
        for sender, number in taken.items():
            mask |= known[sender][number]
        common &= mask
    return common


@pytest.mark.parametrize("contents", ["a", "ab", "abcdef"])
def test_nothing_is_known_that_some_explanation_leaves_open(contents: str) -> None:
    """The mailbox claims nothing that an explanation leaves open. For equal messages it claims all that is in every
    explanation; for others nearly all.
    """
    rng = random.Random(contents)
    counts: Counter[str] = Counter()
    for _ in range(1500):
        lines, takes = history(rng, contents)
        known = knowledge(rng, lines)
        mail, box = box_of(lines)
        for sender, clocks in known.items():
            for clock in clocks[1:]:
                post(mail, sender, clock)
        have = 0
        for number, message in enumerate(takes):
            more, late = box.take(message, "wait", Masks([0]))
            assert late is None
            assert more is not None
            have |= more
            truth = in_all(known, lines, takes[: number + 1])
            assert have & ~truth == 0
            counts["takes"] += 1
            counts["posts"] += (have ^ truth) >> 8 == 0
            counts["all"] += have == truth
    assert counts["posts"] == counts["takes"] or len(contents) > 1
    assert counts["posts"] > 0.9 * counts["takes"]
    assert counts["all"] > 0.8 * counts["takes"]


@pytest.mark.parametrize("posts", ["there", "any"])
@pytest.mark.parametrize("contents", ["a", "ab"])
def test_a_post_that_may_or_may_not_have_been_there(contents: str, posts: Posts) -> None:
    """The walk over the journals has reached only the first posts of each sender. The host waits for more if they
    matter. Then it learns that there were no others, or that any may have been there.
    """
    rng = random.Random(contents + posts)
    waited = 0
    for _ in range(1500):
        lines, takes = history(rng, contents)
        known = knowledge(rng, lines)
        there = {sender: line[: rng.randint(0, len(line))] for sender, line in lines.items()}
        mail, box = box_of(lines)
        for sender, clocks in known.items():
            for clock in clocks[1 : len(there[sender]) + 1]:
                post(mail, sender, clock)
        possible, have = there if posts == "there" else lines, 0
        for number, message in enumerate(takes):
            if not explanations(possible, takes[: number + 1]):
                break  # then the mailbox claims nothing
            more, late = box.take(message, "wait", Masks([0]))
            if late is not None:
                waited += 1
                assert late.clock is None
                more, late = box.take(message, posts, Masks([0]))
                assert late is None
            have |= more or 0
            assert have & ~in_all(known, possible, takes[: number + 1]) == 0
    assert waited > 300


def taken(lines: Lines, takes: Sequence[Any], lossy: Sequence[int] = ()) -> int:
    """Returns the bits that are known at the end: for each sender three bits, one for each post that was taken."""
    mail, box = box_of(lines, lossy)
    for sender, line in lines.items():
        for number in range(len(line)):
            post(mail, sender, (1 << number + 1) - 1 << 3 * sender)
    have = 0
    for message in takes:
        have |= box.take(message, "wait", Masks([0]))[0] or 0
    return have


def test_equal_messages_are_counted() -> None:
    lines = {0: ["ok", "ok"], 1: ["ok"]}
    assert [taken(lines, ["ok"] * count) for count in range(4)] == [0, 0, 0b000_001, 0b001_011]


def test_messages_of_one_sender_are_in_order() -> None:
    lines = {0: ["a", "b"], 1: ["c", "b"]}
    assert taken(lines, ["a", "b"]) == 0b000_011, "the message of sender 1 is behind one that no rank took"
    assert taken(lines, ["a", "c", "b"]) == 0b001_001


def test_of_a_rank_that_died_messages_may_be_lost() -> None:
    lines = {0: ["a", "ok"], 1: ["ok"]}
    assert taken(lines, ["ok"]) == 0b001_000
    assert taken(lines, ["ok"], lossy=[0]) == 0
    assert taken({0: ["a", "ok"]}, ["ok"], lossy=[0]) == 0b011


def test_a_mailbox_with_too_many_messages_is_not_counted() -> None:
    for count, sure in ((MANY // 2 - 1, True), (MANY, False)):
        lines = {0: ["ok"] * count, 1: ["ok"] * count}
        mail, box = box_of(lines)
        for sender in lines:
            for _ in range(count):
                post(mail, sender, 1 << sender)
        known = [box.take("ok", "wait", Masks([0]))[0] for _ in range(2 * count)]
        assert (known[-1] == 0b11) == sure


def test_a_message_that_nothing_explains_orders_nothing() -> None:
    mail, box = box_of({0: ["a"], 1: ["a"]})
    for sender in (0, 1):
        post(mail, sender, 1 << sender)
    assert box.take("b", "wait", Masks([0])) == (None, None)
    assert [box.take("a", "wait", Masks([0]))[0] for _ in range(2)] == [0, 0], (
        "after a message that nothing explains, the box names no sender"
    )
