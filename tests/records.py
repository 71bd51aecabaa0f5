"""Makes and changes raw records of journals by hand. Tests use only this module for it.

raw("launch", "write", stream="main", reads=(), writes=())
changed(record, count=9)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dpsim.contract.ops import KIND, MAIN, RECORDS, RawRecord, as_record

COMMON: dict[str, Any] = {"step": 0, "thread": MAIN, "ordinal": 0, "where": ""}
"""The default values of the fields that every record has."""


def raw(kind: str, site: str, **fields: Any) -> RawRecord:
    """Returns a record in the form of a backend's journal."""
    return tuple(RECORDS[kind](**COMMON | {"kind": kind, "site": site} | fields))


def all_reduce(site: str, communicator: str, seq: int, **fields: Any) -> RawRecord:
    """Returns the record of a host all_reduce of eight int32."""
    form: dict[str, Any] = {"stream": None, "op": "all_reduce", "count": 8, "dtype": "int32", "root": None}
    form |= {"reduce": "sum", "sizes": (), "reads": (), "writes": (), "communicator": communicator, "seq": seq}
    return raw("collective", site, **form | fields)


def unplaced(journal: Iterable[RawRecord]) -> list[RawRecord]:
    """Returns the journal without addresses of memory, which differ between machines."""
    return [changed(record, place=None) if record[KIND] == "alloc" else record for record in journal]


def changed(record: RawRecord, **fields: Any) -> RawRecord:
    """Returns the record with other values in some fields."""
    return tuple(as_record(record)._replace(**fields))
