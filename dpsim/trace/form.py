"""The form of a trace: one line of JSON for each record, and exactly one text for each record.

The body has, for each rank in ascending order, the rank's journal in the order of issue, with all its host threads. A
line has the rank, and the fields of the record's class in `dpsim.contract.ops`:

    {"communicator":"dp_cpu","count":8,"dtype":"int32","kind":"collective","op":"all_reduce","ordinal":4,"rank":1,"root":null,
    ...,"thread":"main",...}

Keys are sorted, there are no spaces and only ASCII characters. Every number is exact, and every value has its shortest
text. So equal journals have equal bytes in any process. `decode` refuses every text that `encode` would not write.

Left out are source line (`where`), message of an exception, address of memory (`place`), and records of injected
faults. These may differ between backends or after an edit elsewhere. Tuples become lists, and a float that JSON lacks
becomes an object such as {"float": "nan"}. Templates made from the record classes format a record in 1.2 us
(`json.dumps`: 4). Prior art: RFC 8785 (canonical JSON), git's objects.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from operator import index, itemgetter
from sys import intern
from typing import Any, NamedTuple, get_type_hints

from dpsim.contract.ops import KIND, ORDINAL, RECORDS, SITE, STEP, RawRecord, Refs
from dpsim.contract.words import BadInput, printable
from dpsim.trace.strict_json import loads, refuse_deep, refuse_long

FORMAT = "dpsim-trace"
VERSION = 3

UNWRITTEN = "injected"

LEFT_OUT: dict[str, Any] = {"where": "", "message": "", "place": None, "local": True}
"""The fields that the body leaves out, and their values in a record that `decode` returns. `local`: a trace does not
say which decisions concern only some members, so each decision that comes back counts as one of all members.
"""


class TraceError(BadInput):
    """No trace, or a record that none can contain. The text says where, what was expected, and what was found."""


_to_json = json.JSONEncoder(separators=(",", ":"), sort_keys=True, allow_nan=False).encode


def digest(journals: Iterable[Sequence[RawRecord]]) -> str:
    """Returns the SHA-256 of the body in hexadecimal. Raises TraceError for a decision that no trace can contain."""
    total = hashlib.sha256()
    for rank, journal in enumerate(journals):
        for line in lines(rank, journal):
            total.update(line)
    return total.hexdigest()


def lines(rank: int, journal: Iterable[RawRecord]) -> Iterator[bytes]:
    """Yields the lines of one rank's journal, each with its newline."""
    for raw in journal:
        if raw[KIND] != UNWRITTEN:
            yield encode(rank, raw)


def canonical(raw: RawRecord) -> RawRecord:
    """Returns a record without the fields that a trace leaves out, as a reader of the trace gets it."""
    fields = list(raw)
    for at, empty in _EMPTY[raw[KIND]]:
        fields[at] = empty
    return tuple(fields)


def encode(rank: int, raw: RawRecord) -> bytes:
    """Returns the line of a record. Raises KeyError for an unknown kind, TraceError for a value that does not fit."""
    line, row = _LINES[raw[KIND]], (rank, *raw)
    try:
        return (line.template % tuple([write(row[at]) for at, write in line.columns])).encode()
    except (TypeError, ValueError) as error:
        raise TraceError(f"rank {rank}, step {raw[STEP]}, {raw[KIND]} {raw[SITE]}[{raw[ORDINAL]}]: {error}") from error


def decode(text: bytes) -> tuple[int, RawRecord]:
    """Returns rank and record of a line. Raises ValueError, which says what was expected."""
    try:
        row = loads(text)
    except ValueError as error:
        raise ValueError(f"expected a JSON object, got {shown(text)} ({error})") from None
    if not isinstance(row, dict):
        raise ValueError(f"expected a JSON object, got {shown(text)}")
    kind = row.get("kind")
    line = _LINES.get(kind) if isinstance(kind, str) else None
    if line is None:
        raise ValueError(f"unknown record kind {kind!r}; expected one of {', '.join(_LINES)}")
    if row.keys() != line.keys:
        raise ValueError(_wrong_fields(row, line))
    rank = row["rank"]
    try:
        raw = line.raw_record(row)
        exact = encode(rank, raw) == text
    except (TypeError, TraceError, RecursionError) as error:
        raise ValueError(f"wrong value: {error}") from None
    if not exact:
        raise ValueError(f"not in canonical form: expected {shown(encode(rank, raw))}, got {shown(text)}")
    return rank, raw


def shown(text: bytes, limit: int = 200) -> str:
    """Returns a line for an error text: at most `limit` bytes, with printable characters only."""
    some = text[:limit].rstrip(b"\n").decode("ascii", "backslashreplace")
    return (printable(some) or "an empty line") + ("..." if len(text) > limit else "")


# ---- how each field is written


def _integer(value: Any) -> str:
    return str(value) if type(value) is int else f"{index(value):d}"


@lru_cache(maxsize=1 << 16)
def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a string, got {value!r}")
    return _to_json(value)


def _optional_text(value: Any) -> str:
    return "null" if value is None else _text(value)


def _optional_integer(value: Any) -> str:
    return "null" if value is None else _integer(value)


def _integers(value: Any) -> str:
    return f"[{','.join([_integer(item) for item in value])}]"


def _refs(value: Any) -> str:
    return f"[{','.join([_integers(item) if len(item) == 3 else _tagged(*item) for item in value])}]"


def _tagged(buffer: Any, first: Any, end: Any, tag: Any) -> str:
    return f"[{_integer(buffer)},{_integer(first)},{_integer(end)},{_value(tag)}]"


def _value(value: Any) -> str:
    plain = _plain(value)
    if isinstance(plain, list):
        refuse_deep([plain])  # as it is in its record
    elif isinstance(plain, int):
        refuse_long(plain)
    return _to_json(plain)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):  # a numpy scalar
        return _plain(value.item())
    raise TypeError(
        f"a decision may be made of numbers, strings, booleans, None and tuples of these, not of {type(value).__name__}"
    )


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_from_json(item) for item in value)
    if isinstance(value, dict):
        if set(value) == {"float"} and value["float"] in ("nan", "inf", "-inf"):
            return math.nan if value["float"] == "nan" else float(value["float"])  # one NaN object equals itself
        raise TypeError('of objects, only {"float": "nan"}, "inf" and "-inf" may be in a decision')
    return value


def _truth(value: Any) -> str:
    if type(value) is not bool:
        raise TypeError(f"expected a truth value, got {value!r}")
    return "true" if value else "false"


_WRITERS: dict[Any, Callable[[Any], str]] = {
    int: _integer,
    bool: _truth,
    str: _text,
    str | None: _optional_text,
    int | None: _optional_integer,
    tuple[int, ...]: _integers,
    Refs: _refs,
    Any: _value,
}
"""How to write a field, by its type in the record class. A new kind of record needs a line only for a new type."""


class _Line(NamedTuple):
    template: str
    columns: tuple[tuple[int, Callable[[Any], str]], ...]  # in order of the keys: position in (rank, *raw), writer
    keys: frozenset[str]
    raw_record: Callable[[dict[str, Any]], RawRecord]


def _line(kind: str) -> _Line:
    cls = RECORDS[kind]
    types = {"rank": int} | {name: hint for name, hint in get_type_hints(cls).items() if name not in LEFT_OUT}
    keys = sorted(types)
    parts = ",".join(f'"{key}":' + (f'"{kind}"' if key == "kind" else "%s") for key in keys)
    place = {"rank": 0} | {name: at for at, name in enumerate(cls._fields, 1)}
    columns = tuple((place[key], _WRITERS[types[key]]) for key in keys if key != "kind")
    return _Line(f"{{{parts}}}\n", columns, frozenset(keys), _reader(cls._fields, types))


def _reader(fields: tuple[str, ...], types: dict[str, Any]) -> Callable[[dict[str, Any]], RawRecord]:
    converted = [field for field in fields if types.get(field) in (tuple[int, ...], Refs, Any)]
    texts = [field for field in fields if types.get(field) in (str, str | None) or field == "kind"]
    get = itemgetter(*fields)

    def raw_record(row: dict[str, Any]) -> RawRecord:
        for field in converted:
            row[field] = _from_json(row[field])
        for field in texts:  # a long journal has few different ones: keep each once
            text = row[field]
            if text is not None:
                row[field] = intern(text) if isinstance(text, str) else _refused(field, text)
        row |= LEFT_OUT
        raw: RawRecord = get(row)
        return raw

    return raw_record


def _refused(field: str, value: Any) -> str:
    raise TypeError(f"{field}: expected a string, got {value!r}")


def _wrong_fields(row: dict[str, Any], line: _Line) -> str:
    lacking, foreign = sorted(line.keys - row.keys()), sorted(row.keys() - line.keys)
    problem = f"a record of kind {row['kind']!r}"
    problem += f" lacks {', '.join(lacking)}" if lacking else ""
    problem += " and" if lacking and foreign else ""
    problem += f" has unknown fields {', '.join(foreign)}" if foreign else ""
    return f"{problem}; expected {', '.join(sorted(line.keys))}"


_EMPTY = {
    kind: [(cls._fields.index(field), empty) for field, empty in LEFT_OUT.items() if field in cls._fields]
    for kind, cls in RECORDS.items()
}
_LINES = {kind: _line(kind) for kind in RECORDS if kind != UNWRITTEN}
