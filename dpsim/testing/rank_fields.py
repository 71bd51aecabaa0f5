"""The fields of a model from which a program gets its number of ranks, with the bounds that a strategy adds.

    rank_fields(program)        # {"ranks": (1, 4)} of a field `ranks: int = 2`

A field `ranks: int = 2` allows 0 and -1, with which a scenario has no rank, and a thousand, with which no search ends.
So a strategy draws such a field from 1 where the model has no lower bound, or the bound 0. It draws up to MOST ranks
where the model has no upper bound.

`Program.ranks` may be any function. A field counts if another value of it changes what the function returns.
"""

from __future__ import annotations

import functools
from contextlib import suppress
from typing import Any

from pydantic import BaseModel

from dpsim.contract.program import Program
from dpsim.scenario.params.shapes import Number, fields

MOST = 4
"""Ranks that a strategy draws where the model has no upper bound."""


@functools.lru_cache(1_000)
def rank_fields(program: type[Program[Any]]) -> dict[str, tuple[int, int]]:
    """The least and greatest value to draw, by key; none for bounds from 1, or if no small values fit."""
    model: Any = program.Params
    shapes = fields(model)
    open_ones = {
        key: shape
        for key, shape in shapes.items()
        if isinstance(shape, Number) and shape.step == 1 and (shape.most is None or (shape.least or 0) < 1)
    }
    base = {
        field.alias or name: max(1, shape.least or 0)
        for name, field in model.model_fields.items()
        if field.is_required() and isinstance(shape := shapes[field.alias or name], Number)
    }
    found = {}
    for key, shape in open_ones.items():
        least = max(1, shape.least or 0)
        most = max(MOST, least) if shape.most is None else shape.most
        some = range(least, min(most, least + MOST) + 1)
        if len({_ranks(program, model, {**base, key: value}) for value in some}) > 1:
            found[key] = least, most
    return found


def _ranks(program: type[Program[Any]], model: type[BaseModel], values: dict[str, int]) -> int | None:
    """None if the model refuses the values."""
    with suppress(Exception):  # what a validator, or the user's own function, raises
        return program.ranks(model.model_validate(values))
    return None
