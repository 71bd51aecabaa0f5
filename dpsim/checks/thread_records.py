"""Thread records: small functions that read single records of host threads, for checks of hangs within a rank."""

from __future__ import annotations

from dataclasses import dataclass

from dpsim.checks.finding import Fact, fact
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.ops import (
    ADDRESS,
    ENDED_MESSAGE,
    FLAG,
    FLAG_HOW,
    KIND,
    TAKE_HOW,
    THREAD,
    THREAD_HOW,
    THREAD_NAME,
    RawRecord,
)


def waits(raw: RawRecord) -> bool:
    """Returns whether a thread waits there for another thread: for its flag, or for its end."""
    kind = raw[KIND]
    return bool((kind == "flag" and raw[FLAG_HOW] == "wait") or (kind == "thread" and raw[THREAD_HOW] == "join"))


def is_idle(raw: RawRecord) -> bool:
    return bool(raw[KIND] == "take" and raw[TAKE_HOW] == "idle")


def sets(raw: RawRecord, flag: str) -> bool:
    return bool(raw[KIND] == "flag" and raw[FLAG_HOW] == "set" and raw[FLAG] == flag)


@dataclass(frozen=True)
class FlagHistory:
    """All sets of a flag on a rank in order, and the clear after the last one, if there is one."""

    sets: tuple[Entry, ...]
    cleared: Entry | None

    @staticmethod
    def of(rank: int, journal: list[RawRecord], flag: str) -> FlagHistory:
        sets, cleared = [], None
        for at, raw in enumerate(journal):
            if raw[KIND] == "flag" and raw[FLAG] == flag:
                if raw[FLAG_HOW] == "set":
                    sets.append(Entry(rank, at, raw))
                    cleared = None
                elif raw[FLAG_HOW] == "clear":
                    cleared = Entry(rank, at, raw)
        return FlagHistory(tuple(sets), cleared)


def place(entry: Entry) -> Fact:
    """Returns the site, the line and the step of an op."""
    return fact("place", op=entry.record)


def raised(run_index: RunIndex, rank: int) -> list[Entry]:
    """Returns the end of each thread of a rank that raised and that no thread joined."""
    if rank not in run_index.threaded:
        return []
    journal = run_index.run.journals[rank]
    found: dict[str, Entry] = {}
    joins: dict[object, str] = {}
    for at, raw in enumerate(journal):
        if raw[KIND] == "ended" and raw[ENDED_MESSAGE]:
            found[raw[THREAD]] = Entry(rank, at, raw)
        elif raw[KIND] == "thread" and raw[THREAD_HOW] == "join":
            joins[raw[ADDRESS]] = raw[THREAD_NAME]
        elif raw[KIND] == "learned" and raw[ADDRESS] in joins:
            found.pop(joins[raw[ADDRESS]], None)
    return list(found.values())
