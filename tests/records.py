"""Records written by hand: the one place where tests make or change raw records.

raw("launch", "write", stream="main", reads=(), writes=())
changed(record, count=9)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dpsim.contract.ops import KIND, MAIN, RECORDS, RawRecord, as_record

COMMON: dict[str, Any] = {"step": 0, "thread": MAIN, "ordinal": 0, "where": ""}
"""What every record has, where a test does not say it."""


def raw(kind: str, site: str, **fields: Any) -> RawRecord:
    """A record as a backend keeps it."""
    return tuple(RECORDS[kind](**COMMON | {"kind": kind, "site": site} | fields))


def all_reduce(site: str, communicator: str, seq: int, **fields: Any) -> RawRecord:
    """A host all_reduce of eight int32."""
    form: dict[str, Any] = {"stream": None, "op": "all_reduce", "count": 8, "dtype": "int32", "root": None}
    form |= {"reduce": "sum", "sizes": (), "reads": (), "writes": (), "communicator": communicator, "seq": seq}
    return raw("collective", site, **form | fields)


def unplaced(journal: Iterable[RawRecord]) -> list[RawRecord]:
    """Without the places of memory, which are each machine's own."""
    return [changed(record, place=None) if record[KIND] == "alloc" else record for record in journal]


def changed(record: RawRecord, **fields: Any) -> RawRecord:
    """The record with other values in some fields."""
    return tuple(as_record(record)._replace(**fields))
