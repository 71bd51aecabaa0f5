"""A parameter that may differ between ranks: one value for all of them, and other values of single ranks.

    class Limits(BaseModel):
        slots: PerRank[int]

    slots: 4                        # of all ranks
    slots: {others: 4, 1: 2}        # 2 of rank 1, 4 of all others

    args.params.slots[rank.rank]

The model says by this type that a parameter may differ; the scenario says where. Pydantic checks each value as it
checks a field of the type in brackets. A scenario that names a rank which its world does not have is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar, get_args

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from dpsim.scenario.base import ALL_TAG, EACH_TAG

T = TypeVar("T")
OTHERS = "others"
RANK = "0|[1-9][0-9]{0,3}"


class PerRank(Generic[T]):
    """A value of each rank. `others`: of the ranks that `ranks` does not name."""

    # No dataclass: pydantic would read one by its fields, and not by the schema below.
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
        """The value of a rank, by its number from 0."""
        return self.ranks.get(rank, self.others)

    @staticmethod
    def of(values: Iterable[T]) -> PerRank[T]:
        """From the values of rank 0, 1, ...

        >>> PerRank.of([4, 2, 4])
        PerRank(4, {1: 2})
        """
        first, *rest = values
        return PerRank(first, {rank: value for rank, value in enumerate(rest, 1) if value != first})

    def within(self, size: int) -> PerRank[T]:
        """The same without ranks from `size` on."""
        return PerRank(self.others, {rank: value for rank, value in self.ranks.items() if rank < size})

    def plain(self) -> Any:
        """As a scenario file has it."""
        return {OTHERS: self.others, **self.ranks} if self.ranks else self.others

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        one = handler(next(iter(get_args(source)), Any))
        key = core_schema.no_info_after_validator_function(_key, core_schema.str_schema())
        each = core_schema.no_info_after_validator_function(_each, core_schema.dict_schema(key, one))
        every = core_schema.no_info_after_validator_function(cls, one)
        read = core_schema.tagged_union_schema({ALL_TAG: every, EACH_TAG: each}, _tag)
        plain = core_schema.plain_serializer_function_ser_schema(cls.plain)
        return core_schema.no_info_before_validator_function(_plain, read, serialization=plain)


def _plain(value: Any) -> Any:
    """As a file has it: an instance, or a mapping of Python whose keys are numbers."""
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
