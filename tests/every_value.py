"""Draws values of a type, for tests of writers and readers: whatever the type allows, also what users rarely write.

    every(int | None)                       # None, 0, -1, 2**70, ...
    every(NightRow, seconds=st.just(0.0))   # rows with all fields, each by its type; `seconds` is fixed

A test of a file draws the values that the writer takes, writes them, and compares what the reader returns. The values
follow from the types of the writer. So a new field is drawn as soon as its class has it, and the test fails if the
reader forgets it.

    assert read(written(value)) == value

Texts have line breaks, quotes, other scripts, halves of surrogate pairs and long numbers. Floats have infinities. They
have no NaN, because NaN does not equal itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st
from pydantic import BaseModel

UNUSUAL = (
    *(
        "",
        " ",
        "\n",
        "a\nb\r\n",
        '"',
        "\\",
        "'",
        "\0",
        "\x85",
        "\u2028",
        "\ufeff",
        "\x1b[31m",
        "null",
        "NaN",
        "-0",
        "#",
    ),
    *("a: b", "[1, 2]", "{", ",,,,", "rank 0", "rank 1 box[2]", "é", "日本", "🙂", "a" * 300, f": {'1' * 310}"),
)
HALVES = ("\ud800", "\udfff\n")
"""Halves of surrogate pairs, which no text in UTF-8 has."""

TEXTS = st.text(max_size=8) | st.sampled_from(UNUSUAL)
ANY_TEXTS = TEXTS | st.sampled_from(HALVES)
INTEGERS = st.integers(-(2**70), 2**70)
COUNTS = st.integers(0, 2**62)
"""Numbers that fit into 64 bits, from 0."""

PLAIN = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False) | ANY_TEXTS,
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)
"""Values that a program may decide or send."""

JSON = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXTS, inner, max_size=3),
    max_leaves=6,
)
"""Values of JSON."""

KNOWN: dict[Any, st.SearchStrategy[Any]] = {
    Any: PLAIN,
    NoneType: st.none(),
    None: st.none(),
    bool: st.booleans(),
    int: INTEGERS,
    float: st.floats(allow_nan=False),
    str: ANY_TEXTS,
    bytes: st.binary(max_size=12),
}


def every(kind: Any, known: Mapping[Any, st.SearchStrategy[Any]] = KNOWN, **own: st.SearchStrategy[Any]) -> Any:
    """Returns a strategy for values of a type. `known`: the strategies of types; `own`: those of fields of a class."""
    if kind in known:
        return known[kind]
    origin, of = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return every(of[0], known)
    if origin is Literal:
        return st.sampled_from(of)
    if origin in (Union, UnionType):
        return st.one_of([every(one, known) for one in of])
    if origin is not None:
        return _collection(origin, of, known)
    return st.builds(
        kind, **{name: every(hint, known) for name, hint in fields_of(kind).items() if name not in own}, **own
    )


def fields_of(kind: type[Any]) -> dict[str, Any]:
    """Returns the types of the fields of a named tuple, a dataclass or a model."""
    hints = get_type_hints(kind, include_extras=True)
    if is_dataclass(kind):
        return {one.name: hints[one.name] for one in fields(kind) if one.init}
    names = kind.model_fields if issubclass(kind, BaseModel) else getattr(kind, "_fields", None)
    if names is None:
        raise TypeError(f"{kind} has no strategy: give one, or add its type here")
    return {name: hints[name] for name in names}


def _collection(origin: Any, of: tuple[Any, ...], known: Mapping[Any, st.SearchStrategy[Any]]) -> Any:
    inner = [every(one, known) for one in of if one is not ...]
    if origin is tuple and of[-1:] != (...,):
        return st.tuples(*inner)
    if issubclass(origin, Counter):
        return st.dictionaries(inner[0], st.integers(1, 9), max_size=3).map(Counter)
    if issubclass(origin, Mapping):
        return st.dictionaries(*inner, max_size=3)
    if issubclass(origin, set | frozenset):
        return st.sets(inner[0], max_size=3).map(origin)
    listed = st.lists(inner[0], max_size=3)
    return listed.map(tuple) if origin is tuple else listed if issubclass(origin, Sequence) else listed.map(origin)
