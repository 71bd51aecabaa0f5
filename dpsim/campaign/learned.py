"""Learned: what each host thread of a run learned, as lists that two runs on any backends can compare.

    lists, places = learned(run)
    lists["rank 1"]             # ["sum[0] 3735928559", "plan[0] decided 8", "finished"]
    places["rank 1"]            # the rank, and the index of the record in its journal, of each

An outcome has the values of awaits, decisions, and how each thread ended. An array counts by its checksum, and ports
that the system chose have names. Left out is what the contract leaves open: texts of exceptions, times, lines, and the
order of records of two threads. A sum of floats whose order matters leaves out all arrays of floats (`rounded`).

An unmodified program of torch has other calls on real processes, so its lists have decisions and ends alone.
"""

from __future__ import annotations

from typing import Any, TypeAlias
from zlib import crc32

from dpsim.contract.ops import (
    ADDRESS,
    ANY_DTYPE,
    DECISION_VALUE,
    DTYPE,
    ENDED_MESSAGE,
    KIND,
    LEARNED_OUTCOME,
    MAIN,
    ORDINAL,
    SITE,
    THREAD,
    RawRecord,
    Read,
)
from dpsim.contract.words import short
from dpsim.contract.world import Run
from dpsim.trace.given_ports import given_ports, named

LONGEST = 200
"""The longest value in characters that a list contains; of a longer one it has the beginning and a checksum."""

_DTYPES = {"collective": DTYPE, "transfer": DTYPE, "receive_any": ANY_DTYPE, "read": Read._fields.index("dtype")}
"""Where the records of calls that return an array have its element type."""

Lists: TypeAlias = dict[str, list[str]]
Places: TypeAlias = dict[str, list[tuple[int, int | None]]]


def learned(run: Run, rounded: bool = False, calls: bool = True) -> tuple[Lists, Places]:
    """Returns what each thread learned, and for each word its rank and the index of the record; None for an end without
    one. `rounded`: leaves the checksums of floats out. Without `calls`, the lists have decisions and ends alone.
    """
    lists, places = Lists(), Places()
    ports = given_ports(run.journals)
    for number, journal in enumerate(run.journals):
        main, floats, end = actor_name(run, number), set[Any](), str(run.ends[number])
        ended: int | None = None
        lists[main], places[main] = [], []
        for at, raw in enumerate(named(journal, ports)):
            if rounded and _is_float(raw):
                floats.add(raw[ADDRESS])
            if raw[KIND] == "raised":
                end, ended = f"raised {raw[SITE]}", at
            text = _words(raw, floats) if calls or raw[KIND] == "decision" else None
            if text is not None:
                actor = main if raw[THREAD] == MAIN else f"{main} thread {raw[THREAD]}"
                lists.setdefault(actor, []).append(text)
                places.setdefault(actor, []).append((number, at))
        lists[main].append(end)
        places[main].append((number, ended))
    return lists, places


def actor_name(run: Run, number: int) -> str:
    """Returns a rank or service of a run as text."""
    return f"rank {number}" if number < run.size else run.services[number - run.size]


def _words(raw: RawRecord, floats: set[Any]) -> str | None:
    at = f"{raw[SITE]}[{raw[ORDINAL]}]"
    if raw[KIND] == "learned":
        return f"{at} {'a float' if raw[ADDRESS] in floats else _value(raw[LEARNED_OUTCOME])}"
    if raw[KIND] == "decision":
        return f"{at} decided {_value(raw[DECISION_VALUE])}"
    if raw[KIND] == "ended":
        return f"ended {raw[ENDED_MESSAGE].partition(':')[0]}".rstrip()
    return None


def _value(value: Any) -> str:
    text = repr(value)
    if len(text) <= LONGEST:
        return text
    return f"{short(text, LONGEST)} (checksum {crc32(text.encode('utf-8', 'backslashreplace')):08x})"


def _is_float(raw: RawRecord) -> bool:
    at = _DTYPES.get(raw[KIND])
    return at is not None and ("float" in raw[at] or "complex" in raw[at])
