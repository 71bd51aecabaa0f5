"""Replaces port numbers that the system chose by names that are the same in every run.

    journals = [named(journal, given) for journal in run.journals]          # given = given_ports(run.journals)

For port 0, the system chooses another port in each run. The first one that it chose for a store becomes -1, the next
-2, in the order of ranks and journals. This covers calls and values of stores, messages, and what a rank learned. A
decision must not depend on such a port, so it stays. An equal number of a message is replaced, too. A port that the
system chose twice has one name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from dpsim.contract.ops import (
    KIND,
    LEARNED_OUTCOME,
    ORDINAL,
    POST_CONTENT,
    STORE_HOW,
    STORE_PORT,
    STORE_VALUE,
    THREAD,
    RawRecord,
)

Names: TypeAlias = dict[int, int]

ANY = 0
"""The port number that asks the system for a free port."""


def given_ports(journals: Iterable[Iterable[RawRecord]]) -> Names:
    """Returns for each port that the system chose in a run its name, a negative number."""
    names: Names = {}
    for journal in journals:
        asked = set()
        for raw in journal:
            address = raw[THREAD : ORDINAL + 1]
            if raw[KIND] == "store" and (raw[STORE_HOW], raw[STORE_PORT]) == ("open", ANY):
                asked.add(address)
            elif raw[KIND] == "learned" and address in asked and raw[LEARNED_OUTCOME] is not None:
                names.setdefault(raw[LEARNED_OUTCOME], -1 - len(names))
    return names


def named(journal: list[RawRecord], names: Names) -> list[RawRecord]:
    """Returns a journal of the run with names in place of the chosen ports."""
    return [_named(raw, names) for raw in journal] if names else journal


_PLACES = {"post": (POST_CONTENT,), "learned": (LEARNED_OUTCOME,), "store": (STORE_PORT,)}


def _named(raw: RawRecord, names: Names) -> RawRecord:
    places: tuple[int, ...] = _PLACES.get(raw[KIND], ())
    if raw[KIND] == "store" and raw[STORE_HOW] == "set":
        places = STORE_PORT, STORE_VALUE
    return tuple(_value(field, names) if at in places else field for at, field in enumerate(raw)) if places else raw


def _value(value: Any, names: Names) -> Any:
    if type(value) is int:
        return names.get(value, value)
    return tuple(_value(one, names) for one in value) if type(value) is tuple else value
