"""Beside the culprit: the message that it dropped.

    rank 1 left out dp.agree in step 0; rank 0 made it; rank 1 took ('START', 0) of coordinator, and only waits since

Journals show it of an actor that sleeps in an idle get, and did nothing else behind the last message that it took. A
flag's hang names the flag that was set instead, and the ledger the graph that was replayed instead.
"""

from __future__ import annotations

from dataclasses import replace

from dpsim.checks.finding import Finding, matches
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.checks.thread_records import place
from dpsim.contract.ops import (
    ADDRESS,
    KIND,
    LEARNED_OUTCOME,
    TAKE_MAILBOX,
    THREAD,
    posted,
)
from dpsim.contract.words import short

ASLEEP = ("HANG:COLLECTIVE", "HANG:MAILBOX", "HANG:UNDECIDED", "HANG:P2P")


def beside(run_index: RunIndex, findings: list[Finding]) -> list[Finding]:
    """The findings, with what their messages say besides."""
    return [replace(one, message=f"{one.message}{_said(run_index, one)}") for one in findings]


def _said(run_index: RunIndex, finding: Finding) -> str:
    culprit = finding.culprit
    if culprit is None or len(culprit.ranks) > 1:
        return ""
    if any(matches(finding.klass, one) for one in ASLEEP) and run_index.asleep(culprit.rank):
        return _dropped(run_index, culprit.rank)
    return ""


def _dropped(run_index: RunIndex, rank: int) -> str:
    """The last message that an actor took before it went back to sleep, if it did nothing else behind it."""
    journal = run_index.run.journals[rank]
    standing = run_index.living(rank)[0]
    own = [raw for raw in journal[: standing.at] if raw[THREAD] == standing.raw[THREAD]]
    if not own or own[-1][KIND] != "learned" or own[-1][LEARNED_OUTCOME] is None:
        return ""
    heard = own[-1]
    took = next((raw for raw in reversed(own) if raw[KIND] == "take" and raw[ADDRESS] == heard[ADDRESS]), None)
    if took is None:
        return ""
    letter = rank, took[TAKE_MAILBOX], heard[LEARNED_OUTCOME]
    sent = [
        Entry(by, at, raw)
        for by, other in enumerate(run_index.run.journals)
        for at, raw in enumerate(other)
        if posted(raw) == letter
    ]
    by = f" of {run_index.world.actor(sent[-1].rank)} ({place(sent[-1])})" if sent else ""
    return f"; rank {rank} took {short(repr(letter[2]), 60)}{by} at {place(Entry(rank, 0, took))}, and only waits since"
