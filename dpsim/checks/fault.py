"""Fault: no rank raised, no rank died.

The deadlock check handles the effects of a rank's exception or death on its peers; this check only reports it, with the
place. If no thread joined a host thread that raised, and its rank stands still, this check reports that exception too.
If another thread passed an exception on, the finding names the thread that raised it first. The same holds for a thread
that raised while another one captured, because a CUDA graph is lost with the first error.

If a rank raised after it took a message, the finding names the sender and its line, because the message may be wrong.
The content identifies a message; if several ranks sent the same one, the finding names all. If a rank raised after a
notice that another one is gone, it comes behind that rank, which ended before. Ranks that raised the same at one place
of one step share one finding. Its culprit is that place on all of these ranks, because the line is wrong and no single
rank.

    rank 1 raised ValueError in step 3: ...         ->   CRASH:VALUEERROR, culprit rank 1
    ranks 0, 1 raised ValueError in step 3: ...     ->   CRASH:VALUEERROR, culprit ranks 0, 1, or every rank
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpsim.checks import thread_records
from dpsim.checks.blame.reached import reached
from dpsim.checks.finding import Culprit, Finding
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
from dpsim.contract.words import ranks_text, short
from dpsim.contract.world import At


def check(run_index: RunIndex, every: bool = False) -> list[Finding]:
    """One finding for each exception, on any number of ranks. One for each dead rank for which no other rank waits, or
    with `every` for each dead rank.
    """
    findings = []
    alike: dict[tuple[int, str, str], list[Entry]] = {}
    for rank, end in enumerate(run_index.run.ends):
        journal = run_index.run.journals[rank]
        if end == "raised" and journal:
            entry = _first_raised(run_index, _raised(journal, rank))
            alike.setdefault((entry.step, _said(entry)[0], entry.record.where), []).append(entry)
        elif end == "blocked":
            for entry in thread_records.raised(run_index, rank):
                alike.setdefault((entry.step, _said(entry)[0], entry.record.where), []).append(entry)
        elif end == "died" and (every or "blocked" not in run_index.run.ends):
            culprit = reached(run_index, rank)
            findings.append(
                Finding(
                    check="fault",
                    klass="DEATH:RANK",
                    message=f"rank {rank} died in step {culprit.step}",
                    culprit=culprit,
                    position=(culprit.step, 0),
                )
            )
    return findings + [_crash(run_index, entries) for entries in alike.values()]


def _raised(journal: Sequence[RawRecord], rank: int) -> Entry:
    """The place where the program of a rank raised. Without a record of the exception, it is the last record."""
    at = max((at for at, raw in enumerate(journal) if raw[KIND] == "raised"), default=len(journal) - 1)
    return Entry(rank, at, journal[at])


def _first_raised(run_index: RunIndex, raised: Entry) -> Entry:
    """The end of another thread that raised the same at the same place, if there is one. Otherwise the end of a thread
    that raised while this one captured, because its error made the capture invalid. Otherwise `raised` itself.
    """
    journal, said = run_index.run.journals[raised.rank], _said(raised)
    ended = [Entry(raised.rank, at, raw) for at, raw in enumerate(journal[: raised.at]) if raw[KIND] == "ended"]
    for entry in ended:
        if _said(entry) == said and entry.record.where == raised.record.where:
            return entry
    within = _broken_capture(journal[: raised.at], raised.raw[THREAD])
    return next((entry for entry in ended if entry.at in within and entry.record.where), raised)


def _broken_capture(journal: Sequence[RawRecord], thread: str) -> range:
    """The records of the last capture of a thread, if the thread gave it up at the end of a journal; otherwise
    empty.
    """
    own = [at for at, raw in enumerate(journal) if raw[KIND] == "capture" and raw[THREAD] == thread]
    if len(own) < 2 or journal[own[-1]][CAPTURE_WHAT] != "abandon" or own[-1] != len(journal) - 1:
        return range(0)
    return range(own[-2], own[-1])


def _crash(run_index: RunIndex, entries: list[Entry]) -> Finding:
    said: dict[str, list[int]] = {}
    for entry in entries:
        said.setdefault(_said(entry)[1], []).append(entry.rank)
    record, ranks = entries[0].record, [entry.rank for entry in entries]
    error = _said(entries[0])[0]
    alone, run = len(entries) == 1, run_index.run
    every = not alone and len(ranks) == len(run.journals)
    culprit = replace(Culprit.of(ranks[0], record), site=error)
    at = f" at {record.where}" if record.where and not alone else ""
    thread = "" if record.thread == MAIN else f"thread {record.thread} of "
    return Finding(
        check="fault",
        klass=f"CRASH:{error.upper()}",
        message=f"{thread}{ranks_text(ranks)} raised {error} in step {record.step}{at}: {next(iter(said))}",
        culprit=culprit if alone else replace(culprit, ranks=tuple(ranks), every=every),
        position=min(_position(run_index, entry) for entry in entries),
        details=(
            *(f"{ranks_text(own)}: {message}" for message, own in said.items() if len(said) > 1),
            *(line for entry in entries for line in _message_before(run_index, entry)),
        ),
    )


def _position(run_index: RunIndex, entry: Entry) -> tuple[int, int]:
    """The position of an exception: its own, or one behind the last end of which its rank got a notice. Ends have an
    order, so the chain leads to the first.
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


def _message_before(run_index: RunIndex, entry: Entry) -> list[str]:
    """The last value that a thread learned before it raised, if it was a message, with its sender; otherwise none."""
    journal = run_index.run.journals[entry.rank]
    own = [raw for raw in journal[: entry.at] if raw[THREAD] == entry.raw[THREAD]]
    learned = next((raw for raw in reversed(own) if raw[KIND] == "learned"), None)
    took = next((raw for raw in own if learned and raw[KIND] == "take" and raw[ADDRESS] == learned[ADDRESS]), None)
    if learned is None or took is None or learned[LEARNED_OUTCOME] is None:
        return []
    letter = entry.rank, took[TAKE_MAILBOX], learned[LEARNED_OUTCOME]
    senders = [
        _sent(rank, raw) for rank, own in enumerate(run_index.run.journals) for raw in own if posted(raw) == letter
    ]
    said = short(repr(learned[LEARNED_OUTCOME]), 80)
    by = " or ".join(dict.fromkeys(senders)) or "by no actor of this run"
    return [f"rank {entry.rank} last took {said} from {took[TAKE_MAILBOX]} at {took[SITE]}: sent {by}"]


def _sent(rank: int, raw: RawRecord) -> str:
    if raw[KIND] == "injected":
        return f"from outside, as rank {rank} reached {At(raw[SITE], raw[ORDINAL], thread=raw[THREAD])}"
    return f"by rank {rank} at {raw[SITE]}, {raw[WHERE]}, step {raw[STEP]}"


def _said(entry: Entry) -> tuple[str, str]:
    """The type of the exception, and its message."""
    record = entry.record
    if isinstance(record, Ended):
        error, _, message = record.message.partition(": ")
        return error, message
    return record.site, record.message if isinstance(record, Raised) else "no record of the exception"
