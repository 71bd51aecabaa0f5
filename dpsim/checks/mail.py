"""Mail: finds ranks that wait at a mailbox without end. A part of the deadlock check.

    rank 1 waits for a message in inbox                               ->   HANG:MAILBOX:NO_MESSAGE, culprit rank 1
    rank 1 waits at its gate for what rank 0 posts at tell[2]         ->   HANG:MAILBOX:GATE, culprit rank 1

If another actor may send the message, `blame.lost_wakes` looks for the actor that departs from its other steps.

A get with a timeout returns by itself, so it never hangs. HANG:MAILBOX:GATE concerns a run that repeats an earlier one.
A gate (`World.gates`) names the message that a get or poll took in the earlier run. If this message does not arrive,
the two runs differ.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpsim.checks.finding import Culprit, Fact, Finding, fact
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.gates import Address, Gate
from dpsim.contract.ops import ADDRESS, KIND, LEARNED_OUTCOME, MAIN, TAKE_MAILBOX, Take, posted
from dpsim.contract.words import short
from dpsim.contract.world import outside


def waiting(run_index: RunIndex) -> list[Finding]:
    """Returns a finding for each rank that waits at a mailbox without end."""
    gates = {gate.at: gate.message for gate in run_index.world.gates if isinstance(gate, Gate)}
    blocked = [rank for rank, end in enumerate(run_index.run.ends) if end == "blocked"]
    findings = []
    for last in (last for rank in blocked for last in run_index.living(rank)):
        record = last.record
        if not isinstance(record, Take):
            continue
        message = gates.get((last.rank, *last.raw[ADDRESS]))
        if message is not None:
            sent, by = _of_gate(run_index, message), _thread(record)
            what = fact("at_gate", thread=by, rank=last.rank, mailbox=record.mailbox, message=sent)
            findings.append(_finding(run_index, last, "HANG:MAILBOX:GATE", what))
        elif record.how == "get" and record.timeout_ns is None:
            findings.append(_no_message(run_index, last, record))
    return findings


def _no_message(run_index: RunIndex, last: Entry, record: Take) -> Finding:
    posts = (one for journal in run_index.run.journals for one in map(posted, journal) if one is not None)
    sent = sum(one[:2] == (last.rank, record.mailbox) for one in posts)
    message = fact("no_message", thread=_thread(record), rank=last.rank, take=record, sent=sent)
    found = _finding(run_index, last, "HANG:MAILBOX:NO_MESSAGE", message)
    return replace(found, details=_last_taken(run_index, last, record))


def _last_taken(run_index: RunIndex, last: Entry, record: Take) -> tuple[Fact, ...]:
    """Returns a fact about the last message that the rank took from this mailbox.

    It may report an error, after which the sender sends no further message.
    """
    looks: set[Any] = set()
    took: str | None = None
    for raw in run_index.run.journals[last.rank]:
        if raw[KIND] == "take" and raw[TAKE_MAILBOX] == record.mailbox:
            looks.add(raw[ADDRESS])
        elif raw[KIND] == "learned" and raw[ADDRESS] in looks and raw[LEARNED_OUTCOME] is not None:
            took = short(repr(raw[LEARNED_OUTCOME]), 120)
    return () if took is None else (fact("last_taken", rank=last.rank, message=took, mailbox=record.mailbox),)


def _of_gate(run_index: RunIndex, message: Address) -> Fact:
    by, thread, site, ordinal = message
    if by < 0:
        return fact("from_outside", ordinal=ordinal, actor=run_index.world.actor(outside(by)))
    sent = any(raw[KIND] == "post" and raw[ADDRESS] == message[1:] for raw in run_index.run.journals[by])
    at = {"thread": "" if thread == MAIN else thread, "site": site, "ordinal": ordinal}
    return fact("post_at", actor=run_index.world.actor(by), **at, sent=sent)


def _thread(record: Take) -> str:
    return "" if record.thread == MAIN else record.thread


def _finding(run_index: RunIndex, last: Entry, klass: str, message: Fact) -> Finding:
    return Finding(
        check="deadlock",
        klass=klass,
        message=message,
        culprit=Culprit.of(last.rank, last.record),
        position=run_index.position(last),
    )
