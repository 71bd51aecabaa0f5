"""Fault: checks that no rank raised an exception and that no rank died.

    rank 1 raised ValueError in step 3: ...         ->   CRASH:VALUEERROR, culprit rank 1
    ranks 0, 1 raised ValueError in step 3: ...     ->   CRASH:VALUEERROR, culprit ranks 0, 1, or every rank

The check reports only the exception or death and its place. The deadlock check reports peers that wait for the rank. A
host thread may also raise without a thread that joins it. If its rank is blocked at the end, the check reports this
exception too.

If one thread passes an exception on to another, the finding names the thread that raised it first. A CUDA capture
becomes invalid with the first error. So if a thread raises while another one captures, the finding names the former.

If a rank raised after it took a message, the message may be wrong, so the finding names the sender and its line. The
check identifies a message by its content. If several ranks sent equal messages, the finding names all of them.

If a rank raised after the notice that another rank is gone, its finding is sorted behind that of the other rank. Ranks
that raised the same exception at one line of one step share a finding, whose culprit is that line on all of them.

The culprit of a crash is the rank that raised, although another rank's value may have caused the exception. A journal
has only a checksum of an array. So if the rank received any result before, and no message, the finding says that it may
be a victim (`why`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpsim.checks import thread_records
from dpsim.checks.blame.reached import reached
from dpsim.checks.finding import Culprit, Fact, Finding, Part, fact
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.ops import (
    ADDRESS,
    CAPTURE_WHAT,
    KIND,
    LEARNED_OUTCOME,
    MAIN,
    ORDINAL,
    SITE,
    STEP,
    TAKE_MAILBOX,
    THREAD,
    WHERE,
    Ended,
    Raised,
    RawRecord,
    posted,
)
from dpsim.contract.words import short
from dpsim.contract.world import At


def check(run_index: RunIndex, every: bool = False) -> list[Finding]:
    """Returns one finding for each exception and each dead rank.

    Ranks with the same exception share one. A dead rank is left out if a rank is blocked, because the deadlock check
    then reports it; with `every` it is not left out.
    """
    findings = []
    alike: dict[tuple[int, str, str], list[Entry]] = {}
    for rank, end in enumerate(run_index.run.ends):
        journal = run_index.run.journals[rank]
        if end == "raised" and journal:
            entry = _first_raised(run_index, _raised(journal, rank))
            alike.setdefault((entry.step, _error_and_message(entry)[0], entry.record.where), []).append(entry)
        elif end == "blocked":
            for entry in thread_records.raised(run_index, rank):
                alike.setdefault((entry.step, _error_and_message(entry)[0], entry.record.where), []).append(entry)
        elif end == "died" and (every or "blocked" not in run_index.run.ends):
            culprit = reached(run_index, rank)
            findings.append(
                Finding(
                    check="fault",
                    klass="DEATH:RANK",
                    message=fact("died", rank=rank, step=culprit.step),
                    culprit=culprit,
                    position=(culprit.step, 0),
                )
            )
    return findings + [_crash(run_index, entries) for entries in alike.values()]


def _raised(journal: Sequence[RawRecord], rank: int) -> Entry:
    at = max((at for at, raw in enumerate(journal) if raw[KIND] == "raised"), default=len(journal) - 1)
    return Entry(rank, at, journal[at])


def _first_raised(run_index: RunIndex, raised: Entry) -> Entry:
    """Returns the record of the thread that raised first.

    This is another thread that ended with the same exception at the same line, or one that raised while this thread
    captured. Otherwise it is `raised` itself.
    """
    journal, messages = run_index.run.journals[raised.rank], _error_and_message(raised)
    ended = [Entry(raised.rank, at, raw) for at, raw in enumerate(journal[: raised.at]) if raw[KIND] == "ended"]
    for entry in ended:
        if _error_and_message(entry) == messages and entry.record.where == raised.record.where:
            return entry
    within = _broken_capture(journal[: raised.at], raised.raw[THREAD])
    return next((entry for entry in ended if entry.at in within and entry.record.where), raised)


def _broken_capture(journal: Sequence[RawRecord], thread: str) -> range:
    """Returns the records of the capture that a thread abandoned as its last act. Empty if there is none."""
    own = [at for at, raw in enumerate(journal) if raw[KIND] == "capture" and raw[THREAD] == thread]
    if len(own) < 2 or journal[own[-1]][CAPTURE_WHAT] != "abandon" or own[-1] != len(journal) - 1:
        return range(0)
    return range(own[-2], own[-1])


def _crash(run_index: RunIndex, entries: list[Entry]) -> Finding:
    messages: dict[str, list[int]] = {}
    for entry in entries:
        messages.setdefault(_error_and_message(entry)[1], []).append(entry.rank)
    record, ranks = entries[0].record, [entry.rank for entry in entries]
    error = _error_and_message(entries[0])[0]
    alone, run = len(entries) == 1, run_index.run
    every = not alone and len(ranks) == len(run.journals)
    culprit = replace(Culprit.of(ranks[0], record), site=error)
    received = [line for entry in entries for line in _message_before(run_index, entry)]
    return Finding(
        check="fault",
        klass=f"CRASH:{error.upper()}",
        message=fact(
            "raised",
            thread="" if record.thread == MAIN else record.thread,
            ranks=tuple(ranks),
            error=error,
            step=record.step,
            where="" if alone else record.where,
            message=next(iter(messages)),
        ),
        culprit=culprit if alone else replace(culprit, ranks=tuple(ranks), every=every),
        position=min(_position(run_index, entry) for entry in entries),
        details=(
            *(
                fact("raised_with", ranks=tuple(own), message=message)
                for message, own in messages.items()
                if len(messages) > 1
            ),
            *received,
        ),
        why="" if every else _victims(run_index, entries),
    )


def _victims(run_index: RunIndex, entries: Sequence[Entry]) -> Part:
    """Returns that another rank may have caused the exception; empty if no rank received a result before it."""
    journals = run_index.run.journals
    if len(journals) == 1 or not any(
        raw[KIND] == "learned" for entry in entries for raw in journals[entry.rank][: entry.at]
    ):
        return ""
    return fact("may_be_victims", ranks=tuple(entry.rank for entry in entries))


def _position(run_index: RunIndex, entry: Entry) -> tuple[int, int]:
    """Returns the position of an exception, but never one before its cause.

    The raising rank may have learned earlier that another rank died or raised. Then the position comes after that of
    the other rank, to which the same rule applies.
    """
    run, own = run_index.run, run_index.position(entry)
    answers = (raw[LEARNED_OUTCOME] for raw in reversed(run.journals[entry.rank][: entry.at]) if raw[KIND] == "learned")
    match next((outcome for outcome in answers if type(outcome) is tuple and outcome[:1] == ("gone",)), None):
        case "gone", int(gone) if run.ends[gone] == "died":
            step, at = reached(run_index, gone).step, 0
        case "gone", int(gone) if run.ends[gone] == "raised" and run.journals[gone]:
            step, at = _position(run_index, _raised(run.journals[gone], gone))
        case _:
            return own
    return max(own, (step, at + 1))


def _message_before(run_index: RunIndex, entry: Entry) -> list[Fact]:
    """Returns a fact about the message that a thread took last before it raised, with its sender. Empty without a
    message.
    """
    journal = run_index.run.journals[entry.rank]
    own = [raw for raw in journal[: entry.at] if raw[THREAD] == entry.raw[THREAD]]
    learned = next((raw for raw in reversed(own) if raw[KIND] == "learned"), None)
    took = next((raw for raw in own if learned and raw[KIND] == "take" and raw[ADDRESS] == learned[ADDRESS]), None)
    if learned is None or took is None or learned[LEARNED_OUTCOME] is None:
        return []
    taken = entry.rank, took[TAKE_MAILBOX], learned[LEARNED_OUTCOME]
    equal = [[raw for raw in own if posted(raw) == taken] for own in run_index.run.journals]
    times = _times_taken(journal[: entry.at], took, learned)
    untaken = sum(map(len, equal)) - times
    # The messages of one sender keep their order, so the last one taken is none of its first or last messages.
    possible = [own[max(0, len(own) - 1 - untaken) : times] for own in equal]
    senders = [_sent(rank, raw) for rank, own in enumerate(possible) for raw in own]
    message = short(repr(learned[LEARNED_OUTCOME]), 80)
    by = tuple(dict.fromkeys(senders)) or (fact("sent_by_none"),)
    box, site = took[TAKE_MAILBOX], took[SITE]
    return [fact("last_took", rank=entry.rank, message=message, mailbox=box, site=site, senders=by)]


def _times_taken(journal: Sequence[RawRecord], took: RawRecord, learned: RawRecord) -> int:
    takes = {raw[ADDRESS] for raw in journal if raw[KIND] == "take" and raw[TAKE_MAILBOX] == took[TAKE_MAILBOX]}
    equal = learned[LEARNED_OUTCOME]
    return sum(raw[KIND] == "learned" and raw[ADDRESS] in takes and raw[LEARNED_OUTCOME] == equal for raw in journal)


def _sent(rank: int, raw: RawRecord) -> Fact:
    if raw[KIND] == "injected":
        return fact("sent_from_outside", rank=rank, at=str(At(raw[SITE], raw[ORDINAL], thread=raw[THREAD])))
    return fact("sent_by", rank=rank, site=raw[SITE], where=raw[WHERE], step=raw[STEP])


def _error_and_message(entry: Entry) -> tuple[str, str]:
    record = entry.record
    if isinstance(record, Ended):
        error, _, message = record.message.partition(": ")
        return error, message
    return record.site, record.message if isinstance(record, Raised) else "no record of the exception"
