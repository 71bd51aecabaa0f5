"""Fault: no rank raised, no rank died.

What a rank's exception or death does to its peers is the deadlock check's; here it is only stated, with the place.
So is what a host thread raised that nobody joined, where its rank stands still; and of an exception that another thread
of the rank passed on, the thread that raised it first.
Ranks that raised the same in one step and at one place are told in one finding, and none of them is to blame: nothing
tells them apart.

    rank 1 raised ValueError in step 3: ...         ->   CRASH:VALUEERROR, culprit rank 1
    ranks 0, 1 raised ValueError in step 3: ...     ->   CRASH:VALUEERROR, no culprit
"""

from __future__ import annotations

from dataclasses import replace

from dpsim.checks import thread_hangs
from dpsim.checks.finding import Culprit, Finding
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.ops import KIND, MAIN, Ended, Raised
from dpsim.words import ranks_text


def check(run_index: RunIndex, every: bool = False) -> list[Finding]:
    """One finding for each exception, on however many ranks; one for each rank that died while nobody was left to wait
    for it, or for `every` one that died.
    """
    findings = []
    alike: dict[tuple[int, str, str], list[Entry]] = {}
    for rank, end in enumerate(run_index.run.ends):
        journal = run_index.run.journals[rank]
        if end == "raised" and journal:
            at = max((at for at, raw in enumerate(journal) if raw[KIND] == "raised"), default=len(journal) - 1)
            entry = _first_raised(run_index, Entry(rank, at, journal[at]))
            alike.setdefault((entry.step, _said(entry)[0], entry.record.where), []).append(entry)
        elif end == "blocked":
            for entry in thread_hangs.raised(run_index, rank):
                alike.setdefault((entry.step, _said(entry)[0], entry.record.where), []).append(entry)
        elif end == "died" and (every or "blocked" not in run_index.run.ends):
            step = run_index.reached(rank)
            last = run_index.last(rank)
            culprit = Culprit.of(rank, last.record) if last else Culprit(rank, step, "start", "")
            findings.append(
                Finding(
                    check="fault",
                    klass="DEATH:RANK",
                    message=f"rank {rank} died in step {step}",
                    culprit=replace(culprit, step=step),
                    position=(step, 0),
                )
            )
    return findings + [_crash(run_index, entries) for entries in alike.values()]


def _first_raised(run_index: RunIndex, raised: Entry) -> Entry:
    """The end of the thread that raised the same at the same place, if one did; else what is given."""
    error, message = _said(raised)
    for at, raw in enumerate(run_index.run.journals[raised.rank][: raised.at]):
        if raw[KIND] == "ended":
            entry = Entry(raised.rank, at, raw)
            if _said(entry) == (error, message) and entry.record.where == raised.record.where:
                return entry
    return raised


def _crash(run_index: RunIndex, entries: list[Entry]) -> Finding:
    said: dict[str, list[int]] = {}
    for entry in entries:
        said.setdefault(_said(entry)[1], []).append(entry.rank)
    record, ranks = entries[0].record, [entry.rank for entry in entries]
    error = _said(entries[0])[0]
    alone = len(entries) == 1
    at = f" at {record.where}" if record.where and not alone else ""
    thread = "" if record.thread == MAIN else f"thread {record.thread} of "
    return Finding(
        check="fault",
        klass=f"CRASH:{error.upper()}",
        message=f"{thread}{ranks_text(ranks)} raised {error} in step {record.step}{at}: {next(iter(said))}",
        culprit=replace(Culprit.of(ranks[0], record), site=error) if alone else None,
        position=min(run_index.position(entry) for entry in entries),
        details=tuple(f"{ranks_text(own)}: {message}" for message, own in said.items()) if len(said) > 1 else (),
    )


def _said(entry: Entry) -> tuple[str, str]:
    """The type of what was raised, and what it says."""
    record = entry.record
    if isinstance(record, Ended):
        error, _, message = record.message.partition(": ")
        return error, message
    return record.site, record.message if isinstance(record, Raised) else "no record of the exception"
