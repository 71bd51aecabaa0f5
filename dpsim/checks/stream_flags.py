"""Stream flags: finds streams that wait for a flag which no host thread sets. A part of the deadlock check.

    main   stream s waits for ready; read behind it       no thread sets it                        HANG:FLAG:NEVER_SET
    main   stream s waits for ready       u1  set ready, clear ready: the stream may be late       HANG:FLAG:CLEARED
    main   stream s waits for ready, records e again; synchronize e; set ready              HANG:EVENT:RECORDED_AGAIN

If a host thread of the rank is blocked in another op, such as a collective or a get, it may set the flag later. Then
the deadlock check reports that op and not the stream.
"""

from __future__ import annotations

from collections.abc import Collection

from dpsim.checks import thread_hangs
from dpsim.checks.alike_hangs import folded
from dpsim.checks.finding import Fact, Finding, fact
from dpsim.checks.happens_before.flags import passings
from dpsim.checks.recorded_again import recorded_again
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.checks.thread_records import FlagHistory, place
from dpsim.contract.ops import EVENT, FLAG_AWAITED, KIND, STREAM, THREAD


def check(run_index: RunIndex, waiting: Collection[int]) -> list[Finding]:
    """Returns one finding for each rank with such a stream. Ranks that hang in the same way share one.

    `waiting` contains the ranks that are blocked in a collective or transfer.
    """
    found = []
    for rank in sorted(holding(run_index)):
        if rank not in waiting and not thread_hangs.blocked_elsewhere(run_index, rank):
            found.append(_finding(run_index, _blocked_calls(run_index, rank)[0]))
    return folded(found, len(run_index.run.journals))


def holding(run_index: RunIndex) -> list[int]:
    """Returns the ranks that have such a stream."""
    ranks = range(len(run_index.run.journals))
    return [rank for rank in ranks if run_index.end(rank) == "blocked" and _blocked_calls(run_index, rank)]


def _blocked_calls(run_index: RunIndex, rank: int) -> list[Entry]:
    """Returns the first wait of each stream that never ends, and then the waits that may have missed their set."""
    journal = run_index.run.journals[rank]
    never: dict[str, Entry] = {}
    missed: dict[str, Entry] = {}
    for at, passing in passings(journal).items():
        entry = Entry(rank, at, journal[at])
        if passing.by is None:
            never.setdefault(entry.raw[STREAM], entry)
        elif passing.missed:
            missed.setdefault(entry.raw[STREAM], entry)
    return [*never.values(), *missed.values()]


def _finding(run_index: RunIndex, entry: Entry) -> Finding:
    raw, rank = entry.raw, entry.rank
    again = _recorded_again(run_index, entry)
    if again is not None:
        return again
    flag = FlagHistory.of(rank, run_index.run.journals[rank], raw[FLAG_AWAITED])
    why = fact("never_set")
    if flag.sets:
        last, cleared = flag.sets[-1], None
        if flag.cleared is not None:
            cleared = fact("cleared", by=_by(flag.cleared), where=place(flag.cleared), late=last.at > entry.at)
        why = fact("set_last", by=_by(last), where=place(last), cleared=cleared)
    return Finding(
        check="deadlock",
        klass="HANG:FLAG:CLEARED" if flag.sets else "HANG:FLAG:NEVER_SET",
        message=fact(
            "stream_waits", stream=raw[STREAM], ranks=(rank,), flag=raw[FLAG_AWAITED], where=place(entry), why=why
        ),
        culprit=run_index.culprit(entry),
        position=run_index.position(entry),
        details=tuple(thread_hangs.lines(run_index, rank)),
    )


def _by(entry: Entry) -> Fact:
    return fact("named_thread", thread=entry.raw[THREAD])


def _recorded_again(run_index: RunIndex, entry: Entry) -> Finding | None:
    """Returns the finding if a host waits for the stream only because an event was recorded again on it, or None."""
    rank, journal = entry.rank, run_index.run.journals[entry.rank]
    if passings(journal)[entry.at].by is not None:
        return None
    for blocked in thread_hangs.stands(run_index, rank):
        at = recorded_again(journal, entry.at, blocked.at) if blocked.at > entry.at else None
        if at is None:
            continue
        record = Entry(rank, at, journal[at])
        event = record.raw[EVENT]
        earlier = next(
            Entry(rank, one, journal[one])
            for one in range(at - 1, -1, -1)
            if journal[one][KIND] == "mark" and journal[one][EVENT] == event
        )
        return Finding(
            check="deadlock",
            klass="HANG:EVENT:RECORDED_AGAIN",
            message=fact(
                "recorded_again",
                event=event,
                ranks=(rank,),
                on=fact("on_stream", stream=record.raw[STREAM], where=place(record)),
                behind=fact(
                    "wait_for_flag", stream=entry.raw[STREAM], flag=entry.raw[FLAG_AWAITED], where=place(entry)
                ),
                blocked=fact("blocked_thread", thread=blocked.raw[THREAD], where=place(blocked)),
                before=place(earlier),
            ),
            culprit=run_index.culprit(record),
            position=run_index.position(entry),
            details=tuple(thread_hangs.lines(run_index, rank)),
        )
    return None
