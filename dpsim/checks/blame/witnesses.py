"""Actors that raised because others did not act: their time-out passed, or another actor failed and sent them a
message.

    engine.1   get ready, for at most 900 s: the time is up; raised NobodyCame       a witness of whom it waited for
    frontend   get engine.1/2: ("failed", ...), which engine.1 set; raised OneFailed a witness of engine.1

Between the time-out and the end a witness issues only messages, and looks that do not wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.ops import (
    ADDRESS,
    KIND,
    LEARNED_OUTCOME,
    LOOK_TIMEOUT,
    STORE_HOW,
    STORE_KEY,
    STORE_VALUE,
    TAKE_MAILBOX,
    TAKE_TIMEOUT,
    THREAD,
    RawRecord,
    posted,
)

TELLS = frozenset({"post", "probe", "decision", "abort", "free", "ended", "injected", "raised"})
"""Records of an actor that gives up, besides those of stores."""


_MOST = {"take": TAKE_TIMEOUT, "store": STORE_VALUE, "look": LOOK_TIMEOUT}
"""By kind of record: for how long it waits."""


class Passed(NamedTuple):
    """The reason why an actor gave up. `op`: the op whose time-out passed, or in which it learned that another actor
    failed or is gone. `told_by`: the record by which the other actor sent this news.
    """

    op: Entry
    told_by: Entry | None


def gave_up(
    run_index: RunIndex, actor: int, before: int | None = None, seen: frozenset[int] = frozenset()
) -> Passed | None:
    """The reason why an actor gave up at a record of its journal, by default at its final exception. None if it did not
    give up, or for another reason. `seen`: actors whose messages count as explained.
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
        elif not _tells(raw):
            return None
        at -= 1
    return None


def _may_wait(raw: RawRecord) -> bool:
    if raw[KIND] == "look":
        return raw[LOOK_TIMEOUT] is not None
    return raw[KIND] == "take" or (raw[KIND] == "store" and raw[STORE_HOW] in ("open", "join", "get"))


def _timeout(raw: RawRecord) -> int | None:
    """The time-out of a look in ns; None for a look without one."""
    most: int | None = raw[_MOST[raw[KIND]]]
    return 0 if raw[KIND] == "store" and raw[STORE_HOW] == "open" else most


def _failed(run_index: RunIndex, actor: int, raw: RawRecord, outcome: Any, seen: frozenset[int]) -> Entry | None:
    """The record by which another actor sent this outcome, if it raised right after it, or gave up itself."""
    for sender in _senders(run_index, actor, raw, outcome):
        if sender.rank in seen:
            continue
        after = run_index.run.journals[sender.rank][sender.at :]
        ends = run_index.end(sender.rank) == "raised" and all(_tells(one) for one in after)
        if ends or gave_up(run_index, sender.rank, sender.at, seen) is not None:
            return sender
    return None


def _tells(raw: RawRecord) -> bool:
    """Whether an actor that gives up may have this record."""
    return raw[KIND] in TELLS or (raw[KIND] == "store" and raw[STORE_HOW] in ("set", "close"))


def _senders(run_index: RunIndex, actor: int, raw: RawRecord, outcome: Any) -> Iterator[Entry]:
    for other, journal in enumerate(run_index.run.journals):
        if other == actor:
            continue
        for at, one in enumerate(journal):
            if _brings(one, actor, raw, outcome):
                yield Entry(other, at, one)


def _brings(one: RawRecord, actor: int, raw: RawRecord, outcome: Any) -> bool:
    """Whether a record of another actor is the message, or sets the key, that a look of this actor found."""
    if raw[KIND] == "take":
        return posted(one) == (actor, raw[TAKE_MAILBOX], outcome)
    sets = one[KIND] == "store" and one[STORE_HOW] == "set"
    return bool(sets and (one[STORE_KEY], one[STORE_VALUE]) == (raw[STORE_KEY], outcome))
