"""Wake counts: how often each actor sends the wake that another one waits for, in each step.

    step                      0    1    2    3
    rank 0 posts to rank 1    1    0    1    1      rank 0 departs in step 1, which lies between equal steps
    rank 1 takes              1    1    1    1

An actor departs in a step if one of these rules holds:

* It sent fewer wakes than in its other steps, before and after this step. These steps are at least two, and alike.
* It finished the step and sent fewer wakes than all others that send to this mailbox. These act alike.
  They are at least two. In its earlier steps, the actor sent as many as they do now.
* It sent an equal message to all others that read mailboxes of this name. These are at least two. In an earlier step,
  it also sent one to the waiting actor.

So other actors prove something only against an actor that did the same before. Without such a step, it may have
another role.

A step at the end or start of a program may be of another kind. So the first rule needs equal steps on both sides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from dpsim.checks.blame.places import form
from dpsim.checks.finding import Part
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.ops import (
    KIND,
    POST_CONTENT,
    POST_MAILBOX,
    POST_TO,
    SITE,
    STEP,
    STORE_HOW,
    STORE_KEY,
    STORE_NODE,
    STORE_PORT,
    TAKE_HOW,
    TAKE_MAILBOX,
    RawRecord,
)
from dpsim.contract.words import ranks_text, times

FEW = 2
"""The number of other steps, or of other actors, that a comparison needs."""


class OddActor(NamedTuple):
    """An actor that sent too few wakes. `entry` is an op of that kind, for site and line.

    `doubt` is the reason why this is no proof, or empty.
    """

    actor: int
    step: int
    entry: Entry
    text: str
    ground: tuple[str, ...]
    doubt: Part = ""


class PendingWait(NamedTuple):
    """A wait at a mailbox or for a key of a store: the op that does not end."""

    entry: Entry

    @property
    def what(self) -> str:
        raw = self.entry.raw
        return f"a message in {raw[TAKE_MAILBOX]}" if raw[KIND] == "take" else f"key {raw[STORE_KEY]}"

    def sent_by(self, raw: RawRecord) -> bool:
        """Returns whether a record sends such a wake: a post to this mailbox, or a set of a key that differs only in
        its numbers.
        """
        own = self.entry.raw
        if own[KIND] == "take":
            return raw[KIND] == "post" and (raw[POST_TO], raw[POST_MAILBOX]) == (self.entry.rank, own[TAKE_MAILBOX])
        if raw[KIND] != "store" or raw[STORE_HOW] != "set":
            return False
        place = own[STORE_NODE], own[STORE_PORT]
        return (raw[STORE_NODE], raw[STORE_PORT]) == place and form(raw[STORE_KEY]) == form(own[STORE_KEY])

    def like(self, raw: RawRecord) -> bool:
        """Returns whether a record is a wait at a mailbox of this name, or for such a key."""
        own = self.entry.raw
        if raw[KIND] != own[KIND]:
            return False
        if raw[KIND] == "take":
            return bool(raw[TAKE_MAILBOX] == own[TAKE_MAILBOX] and raw[TAKE_HOW] != "poll")
        return bool(raw[STORE_HOW] == "get" and form(raw[STORE_KEY]) == form(own[STORE_KEY]))


def departures(run_index: RunIndex, wait: PendingWait, senders: Sequence[int]) -> list[OddActor]:
    """Returns those of `senders` that owe a wake."""
    sent = {actor: _made(run_index, actor, wait.sent_by) for actor in senders}
    return [one for actor in senders if (one := _owes(run_index, wait, actor, sent)) is not None]


def _made(run_index: RunIndex, actor: int, counts: Callable[[RawRecord], bool]) -> dict[int, list[Entry]]:
    """Returns the records of an actor that count, by step."""
    steps: dict[int, list[Entry]] = {}
    for at, raw in enumerate(run_index.run.journals[actor]):
        if counts(raw):
            steps.setdefault(raw[STEP], []).append(Entry(actor, at, raw))
    return steps


SentWakes: TypeAlias = dict[int, dict[int, list[Entry]]]
"""The wakes that each actor sent, by step."""


def _owes(run_index: RunIndex, wait: PendingWait, actor: int, sent: SentWakes) -> OddActor | None:
    """Returns the departure of an actor that sent fewer wakes than in other steps, or than others in this step."""
    missed = _missed(run_index, wait, actor)
    if missed is not None:
        return missed
    own, seen = sent[actor], {raw[STEP] for raw in run_index.run.journals[actor]}
    odd = _odd_step({step: len(own.get(step, ())) for step in seen}, own)
    if (
        odd is not None
        and not _balanced(run_index, wait, odd)
        and len(own.get(odd, ())) < len(next(iter(_others(own, odd))))
    ):
        usual = _others(own, odd)
        ground = f"rank {actor} sent it {times(len(usual[0]))} in {len(usual)} of {len(usual)} other steps"
        return _departure(wait, actor, odd, usual[0][0], len(own.get(odd, ())), ground)
    return next((one for step in sorted(seen) if (one := _fewer(run_index, wait, actor, step, sent))), None)


def _fewer(run_index: RunIndex, wait: PendingWait, actor: int, step: int, sent: SentWakes) -> OddActor | None:
    """Returns the departure of an actor that sent fewer wakes in a step than all others that send them.

    Its other ops in the step must be at sites of these others. Another site may show that it has another role. So may
    an earlier step in which it sent another number.
    """
    journals = run_index.run.journals
    peers = {other: made[step] for other, made in sent.items() if other != actor and step in made}
    numbers = {len(some) for some in peers.values()}
    number = len(sent[actor].get(step, ()))
    if len(peers) < FEW or len(numbers) > 1 or number >= min(numbers) or not run_index.passed(actor, step):
        return None
    if _balanced(run_index, wait, step):
        return None
    sites = {raw[SITE] for other in peers for raw in journals[other] if raw[STEP] == step}
    if not sites.issuperset(raw[SITE] for raw in journals[actor] if raw[STEP] == step):
        return None
    ground = f"{ranks_text(peers)} sent it {times(min(numbers))} in step {step}"
    doubt = _of_another_role(actor, sent[actor], step, min(numbers), "sent it")
    return _departure(wait, actor, step, min(peers.values())[0], number, ground, doubt)


def _of_another_role(actor: int, own: dict[int, list[Entry]], step: int, number: int, did: str) -> str:
    """Returns why an actor may have another role than others that act `number` times; empty if it did so before."""
    before = {when: len(some) for when, some in own.items() if when < step}
    if not before:
        return f"no earlier step shows that rank {actor} does so"
    other = next((when for when, some in before.items() if some != number), None)
    return "" if other is None else f"rank {actor} {did} {times(before[other])} in step {other}"


def _departure(
    wait: PendingWait, actor: int, step: int, example: Entry, number: int, ground: str, doubt: str = ""
) -> OddActor:
    text = f"rank {actor} sent {wait.what} of rank {wait.entry.rank} {times(number)} in step {step}"
    return OddActor(actor, step, example, text, (ground,), doubt)


def _balanced(run_index: RunIndex, wait: PendingWait, step: int) -> bool:
    """Returns whether the waiting actor waited in a step at most as often as all actors sent it a wake. Then the
    step did no harm.
    """
    sent = sum(len(_made(run_index, one, wait.sent_by).get(step, ())) for one in range(len(run_index.run.journals)))
    return len(_made(run_index, wait.entry.rank, wait.like).get(step, ())) <= sent


def _odd_step(counts: dict[int, int], made: dict[int, list[Entry]]) -> int | None:
    """Returns the one step whose count differs from those of all other steps, if equal steps are on both sides."""
    inner = {step: number for step, number in counts.items() if min(made, default=0) <= step <= max(made, default=-1)}
    for odd in sorted(inner):
        others = {step: number for step, number in inner.items() if step != odd}
        alike = len({*others.values()}) == 1 and 0 not in others.values() and len(others) >= FEW
        if alike and inner[odd] not in others.values() and min(others) < odd < max(others):
            return odd
    return None


def _others(made: dict[int, list[Entry]], odd: int) -> list[list[Entry]]:
    return [entries for step, entries in made.items() if step != odd]


def _missed(run_index: RunIndex, wait: PendingWait, actor: int) -> OddActor | None:
    """Returns the departure of an actor that sent a message to all others with such a mailbox.

    It must have sent equally many messages to these others, and fewer to the waiting actor. That one must have got a
    message in an earlier step, and waited in this one.
    """
    if wait.entry.raw[KIND] != "take":
        return None
    box, rank = wait.entry.raw[TAKE_MAILBOX], wait.entry.rank
    posts = [one for one in _posts(run_index, actor) if one.raw[POST_MAILBOX] == box]
    totals = Counter(one.raw[POST_TO] for one in posts)
    fewer = totals.pop(rank, 0)
    receivers = {*totals}
    if len(receivers) < FEW or len({*totals.values()}) > 1 or fewer >= min(totals.values()):
        return None
    awaited = _awaited_steps(run_index, wait, [one.step for one in posts if one.raw[POST_TO] == rank])
    doubt = "" if fewer else f"rank {rank} got none in any step"
    by_content: dict[tuple[int, str], list[Entry]] = {}
    for one in posts:
        by_content.setdefault((one.step, repr(one.raw[POST_CONTENT])), []).append(one)
    for (step, _), some in by_content.items():
        went = Counter(one.raw[POST_TO] for one in some)
        if {*went} == receivers and (doubt or step in awaited):
            who = ranks_text(receivers)
            text = f"rank {actor} sent {wait.what} to {who} in step {step}, and none to rank {rank}"
            return OddActor(actor, step, some[0], text, (f"the messages to {who} are equal",), doubt)
    return None


def _awaited_steps(run_index: RunIndex, wait: PendingWait, sent: Sequence[int]) -> set[int]:
    """Returns the steps of a sender for which the waiting actor waited. `sent` has the steps of its messages to it.

    An actor may take a message before it sets its own step. So the distances of the two steps at earlier messages
    count. Steps up to the first message are left out: the sender may owe the actor none in them.
    """
    journal = run_index.run.journals[wait.entry.rank]
    waited = [raw[STEP] for raw in journal if wait.like(raw)]
    ahead = {step - taken for step, taken in zip(sent, waited, strict=False)}
    return {step + distance for step in waited for distance in ahead if step + distance > min(sent)}


def _posts(run_index: RunIndex, actor: int) -> Iterator[Entry]:
    journal = enumerate(run_index.run.journals[actor])
    return (Entry(actor, at, raw) for at, raw in journal if raw[KIND] == "post")
