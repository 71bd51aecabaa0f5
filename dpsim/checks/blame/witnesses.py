"""Witnesses: actors that raised only because another actor did not act or reported a failure.

    engine.1   get ready, for at most 900 s: the time is up; raised NobodyCame       a witness of whom it waited for
    frontend   get engine.1/2: ("failed", ...), which engine.1 set; raised OneFailed a witness of engine.1

An actor gave up if its last wait timed out or returned the news of a failure. After this wait it may still send
messages, write notes to its journal and poll without waiting. Any other op shows that it had another reason to raise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.kinds import AT_ONCE, ENDS, timeout_ns
from dpsim.contract.ops import (
    ADDRESS,
    KIND,
    LEARNED_OUTCOME,
    LOOK_TIMEOUT,
    STORE_HOW,
    STORE_KEY,
    STORE_VALUE,
    TAKE_MAILBOX,
    THREAD,
    RawRecord,
    posted,
)

TELLS = AT_ONCE - {"learned"} | ENDS - {"finished"}
"""Kinds of record that an actor may write after it gave up. It may also set keys and close stores."""


class Passed(NamedTuple):
    """The reason why an actor gave up.

    `op` is the op whose timeout expired, or which returned the news that another actor failed or is gone. `sent_by` is
    the record by which the other actor sent this news.
    """

    op: Entry
    sent_by: Entry | None


def gave_up(
    run_index: RunIndex, actor: int, before: int | None = None, seen: frozenset[int] = frozenset()
) -> Passed | None:
    """Returns the reason why an actor gave up before its record `before`, by default before its final exception.

    None if it did not give up. `seen` lists the actors whose messages are explained already, which prevents a cycle.
    """
    seen |= {actor}
    journal = run_index.run.journals[actor]
    at = len(journal) - 1 if before is None else before
    if at < 0 or (before is None and run_index.end(actor) != "raised"):
        return None
    thread, learned = journal[at][THREAD], dict[Any, Any]()
    while at >= 0:
        raw = journal[at]
        if raw[THREAD] != thread:
            at -= 1
            continue
        if raw[KIND] == "learned":
            learned[raw[ADDRESS]] = raw[LEARNED_OUTCOME]
        elif _may_wait(raw):
            if raw[ADDRESS] not in learned:
                return None
            outcome, most = learned[raw[ADDRESS]], _timeout(raw)
            if isinstance(outcome, tuple) and outcome[:1] == ("gone",):
                return Passed(Entry(actor, at, raw), None)
            if most and outcome is (False if raw[KIND] == "look" else None):
                return Passed(Entry(actor, at, raw), None)
            sender = None if outcome is None else _failed(run_index, actor, raw, outcome, seen)
            if sender is not None:
                return Passed(Entry(actor, at, raw), sender)
            if most != 0:
                return None
        elif not _ends_a_peer(raw):
            return None
        at -= 1
    return None


def _may_wait(raw: RawRecord) -> bool:
    if raw[KIND] == "look":
        return raw[LOOK_TIMEOUT] is not None
    return raw[KIND] == "take" or (raw[KIND] == "store" and raw[STORE_HOW] in ("open", "join", "get"))


def _timeout(raw: RawRecord) -> int | None:
    """Returns the timeout of a wait in ns. None for a wait without a timeout, and 0 for a poll."""
    return 0 if raw[KIND] == "store" and raw[STORE_HOW] == "open" else timeout_ns(raw)


def _failed(run_index: RunIndex, actor: int, raw: RawRecord, outcome: Any, seen: frozenset[int]) -> Entry | None:
    for sender in senders(run_index, actor, raw, outcome):
        if sender.rank in seen:
            continue
        after = run_index.run.journals[sender.rank][sender.at :]
        ends = run_index.end(sender.rank) == "raised" and all(_ends_a_peer(one) for one in after)
        if ends or gave_up(run_index, sender.rank, sender.at, seen) is not None:
            return sender
    return None


def _ends_a_peer(raw: RawRecord) -> bool:
    return raw[KIND] in TELLS or (raw[KIND] == "store" and raw[STORE_HOW] in ("set", "close"))


def senders(run_index: RunIndex, actor: int, raw: RawRecord, outcome: Any) -> Iterator[Entry]:
    for other, journal in enumerate(run_index.run.journals):
        if other == actor:
            continue
        for at, one in enumerate(journal):
            if _brings(one, actor, raw, outcome):
                yield Entry(other, at, one)


def _brings(one: RawRecord, actor: int, raw: RawRecord, outcome: Any) -> bool:
    if raw[KIND] == "take":
        return posted(one) == (actor, raw[TAKE_MAILBOX], outcome)
    sets = one[KIND] == "store" and one[STORE_HOW] == "set"
    return bool(sets and (one[STORE_KEY], one[STORE_VALUE]) == (raw[STORE_KEY], outcome))
