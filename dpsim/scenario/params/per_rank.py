"""A parameter that may differ between ranks: one value for all ranks, and other values for single ranks.

    class Limits(BaseModel):
        slots: PerRank[int]

    slots: 4                        # all ranks
    slots: {others: 4, 1: 2}        # 2 for rank 1, 4 for all others

    args.params.slots[rank.rank]

dpsim refuses a scenario that names a rank which the world lacks.
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar, get_args

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from dpsim.scenario.base import ALL_TAG, EACH_TAG, KeyPath

T = TypeVar("T")
OTHERS = "others"
RANK = "0|[1-9][0-9]{0,3}"


class PerRank(Generic[T]):
    """A value for each rank. `ranks`: the values of single ranks. `others`: the value of all other ranks."""

    # No dataclass, because pydantic would validate its fields and not use the schema below.
    def __init__(self, others: T, ranks: Mapping[int, T] | None = None) -> None:
        self.others = others
        self.ranks: Mapping[int, T] = dict(ranks or {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PerRank) and (self.others, self.ranks) == (other.others, other.ranks)

    def __hash__(self) -> int:
        return hash((self.others, tuple(sorted(self.ranks))))

    def __repr__(self) -> str:
        return f"PerRank({self.others!r}{f', {self.ranks!r}' if self.ranks else ''})"

    def __getitem__(self, rank: int) -> T:
        """Returns the value of a global rank."""
        return self.ranks.get(rank, self.others)

    @staticmethod
    def of(values: Iterable[T]) -> PerRank[T]:
        """Returns an object with the values of rank 0, 1, and so on."""
        first, *rest = values
        return PerRank(first, {rank: value for rank, value in enumerate(rest, 1) if value != first})

    def plain(self) -> Any:
        """Returns the value as a scenario file has it."""
        return {OTHERS: self.others, **self.ranks} if self.ranks else self.others

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        one = handler(next(iter(get_args(source)), Any))
        key = core_schema.no_info_after_validator_function(_key, core_schema.str_schema())
        each = core_schema.no_info_after_validator_function(_each, core_schema.dict_schema(key, one))
        every = core_schema.no_info_after_validator_function(cls, one)
        read = core_schema.tagged_union_schema({ALL_TAG: every, EACH_TAG: each}, _tag)
        plain = core_schema.plain_serializer_function_ser_schema(_written)
        # In JSON mode no function may run before `read`: its result would be Python data, where a list is no tuple.
        python = core_schema.no_info_before_validator_function(_plain, read)
        return core_schema.json_or_python_schema(read, python, serialization=plain)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        found = handler(schema)
        one, each = found["oneOf"]
        each["properties"] = {OTHERS: each.pop("additionalProperties", {})}
        each["patternProperties"] = {f"^({RANK})$": each["properties"][OTHERS]}
        return {"anyOf": [one, {**each, "required": [OTHERS], "additionalProperties": False}]}


def _written(value: Any) -> Any:
    """A default may be a bare value, because pydantic does not validate defaults."""
    return value.plain() if isinstance(value, PerRank) else value


def differing(params: BaseModel) -> dict[str, tuple[int, ...]]:
    """Returns the values that only some ranks have, in words, each with these ranks."""
    found: dict[str, tuple[int, ...]] = {}
    for name in type(params).model_fields:
        value = getattr(params, name)
        for rank, own in value.ranks.items() if isinstance(value, PerRank) else ():
            if own != value.others:
                difference = f"{name} {own!r} (others: {value.others!r})"
                found[difference] = (*found.get(difference, ()), rank)
    return found


def ranks_in(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, int]]:
    """The ranks that parameters name, with the path of the value, also in models, mappings and lists."""
    if isinstance(value, PerRank):
        yield from (((*path, str(rank)), rank) for rank in value.ranks)
        yield from ranks_in(value.others, (*path, OTHERS))
        for rank, one in value.ranks.items():
            yield from ranks_in(one, (*path, str(rank)))
    elif isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            yield from ranks_in(getattr(value, name), (*path, field.alias or name))
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from ranks_in(inner, (*path, str(key)))
    elif isinstance(value, (list, tuple)):
        for number, inner in enumerate(value):
            yield from ranks_in(inner, (*path, number))


def within(params: Any, plain: Any, size: int) -> Any:
    """Returns the plain parameters `plain` without the values of ranks from `size` on. `params`: the same as a model.

    >>> within({"sees": PerRank(1, {0: 2, 3: 4})}, {"sees": {"others": 1, "0": 2, "3": 4}}, 2)
    {'sees': {'others': 1, '0': 2}}
    """
    kept = copy.deepcopy(plain)
    for (*path, last), rank in ranks_in(params):
        if rank >= size:
            inner: Any = functools.reduce(_inner, path, kept)
            inner.pop(last, None)
    return kept


def _inner(value: Any, part: Any) -> Any:
    return value[part] if isinstance(value, list) else value.get(part, {})


def _plain(value: Any) -> Any:
    value = value.plain() if isinstance(value, PerRank) else value
    return {str(key): one for key, one in value.items()} if isinstance(value, Mapping) else value


def _tag(value: Any) -> str:
    keys = list(value) if isinstance(value, Mapping) else []
    return EACH_TAG if OTHERS in keys or any(re.fullmatch(RANK, key) for key in keys) else ALL_TAG


def _key(key: str) -> str:
    if key != OTHERS and not re.fullmatch(RANK, key):
        raise ValueError(f"{key!r} is no rank; expected 0, 1, ... or {OTHERS}")
    return key


def _each(values: Mapping[str, T]) -> PerRank[T]:
    if OTHERS not in values:
        raise ValueError(f"the ranks that are not named have no value; expected {OTHERS}: and one")
    return PerRank(values[OTHERS], {int(rank): value for rank, value in values.items() if rank != OTHERS})
