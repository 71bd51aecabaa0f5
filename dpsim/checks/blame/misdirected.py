"""Misdirected: a message that an actor sent to another rank than the one that waits for it.

    rank 3 sends to ranks 1, 2, 2 in step 0, rank 2 takes one, and rank 0 waits       ->   culprit rank 3, step 0

One rank got two equal messages, and has not taken all of its messages. The rank that waits at a mailbox of this name
got none. The sender is the culprit if it sent one to each other rank in the step, or one to both ranks in another step.
Without such a precedent, the message is only named.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple, TypeAlias

from dpsim.checks.blame.wake_counts import OddActor, PendingWait
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.ops import ADDRESS, KIND, LEARNED_OUTCOME, POST_CONTENT, POST_MAILBOX, POST_TO, TAKE_MAILBOX

Sent: TypeAlias = dict[tuple[int, int, str], list[Entry]]
"""Posts to mailboxes of one name, by sender, step and content."""


class Misdirected(NamedTuple):
    """A message that went to the wrong rank, in words. `odd` is its sender, or None without a precedent."""

    text: str
    odd: OddActor | None


def misdirected(run_index: RunIndex, wait: PendingWait) -> Misdirected | None:
    """Returns the first message that went to another rank than the waiting one; None if there is none."""
    if wait.entry.raw[KIND] != "take":
        return None
    waiter, box, sent = wait.entry.rank, wait.entry.raw[TAKE_MAILBOX], _sent(run_index, wait)
    for (sender, step, _), entries in sorted(sent.items()):
        went = Counter(one.raw[POST_TO] for one in entries)
        twice = [to for to, number in went.items() if number > 1]
        if sender == waiter or waiter in went or len(twice) != 1 or went[twice[0]] > 2:
            continue
        [to] = twice
        if not _has_left(run_index, to, box):
            continue
        text = f"rank {sender} sent {wait.what} to rank {to} twice in step {step}, and none to rank {waiter}"
        both = [when for (by, when, _), posts in sent.items() if by == sender and _one_each(posts, to, waiter)]
        others = sorted({*went} - {to})
        if not both and not others:
            return Misdirected(text, None)
        usual = f"it sent one to each of both in {len(both)} other steps" if both else "all others got one"
        return Misdirected(text, OddActor(sender, step, entries[0], text, ("the two messages are equal", usual)))
    return None


def _sent(run_index: RunIndex, wait: PendingWait) -> Sent:
    sent: Sent = {}
    for actor, journal in enumerate(run_index.run.journals):
        for at, raw in enumerate(journal):
            if raw[KIND] == "post" and raw[POST_MAILBOX] == wait.entry.raw[TAKE_MAILBOX]:
                entry = Entry(actor, at, raw)
                sent.setdefault((actor, entry.step, repr(raw[POST_CONTENT])), []).append(entry)
    return sent


def _one_each(posts: list[Entry], one: int, other: int) -> bool:
    went = Counter(entry.raw[POST_TO] for entry in posts)
    return (went[one], went[other]) == (1, 1)


def _has_left(run_index: RunIndex, rank: int, box: str) -> bool:
    got = sum(
        raw[KIND] == "post" and (raw[POST_TO], raw[POST_MAILBOX]) == (rank, box)
        for journal in run_index.run.journals
        for raw in journal
    )
    own = run_index.run.journals[rank]
    looks = {raw[ADDRESS] for raw in own if raw[KIND] == "take" and raw[TAKE_MAILBOX] == box}
    took = sum(raw[KIND] == "learned" and raw[ADDRESS] in looks and raw[LEARNED_OUTCOME] is not None for raw in own)
    return bool(got > took)
