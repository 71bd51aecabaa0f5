"""Ports that a system gave: a rank that asks for any free port gets another number in each run, as in each real system.

So the comparison of two runs replaces these numbers by names. -1 is the port that was given first, of rank 0 if it
asked for one, and so on. The names stand wherever a port can: in the calls of stores, in messages, in what a rank
learns. A decision has none: what a rank decides must not depend on what the system gave.

    journals = [named(journal, given) for journal in run.journals]          # given = given_ports(run.journals)

Any number in a message that is equal to such a port is taken for it. A port that was given twice has one name.
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
"""The port that stands for any that is free."""


def given_ports(journals: Iterable[Iterable[RawRecord]]) -> Names:
    """Of each port that was given in a run its name, in the order of the ranks."""
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
    """A journal of that run with names in the place of given ports."""
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
