"""Hypothesis strategies for parameters, from the types and bounds of a pydantic model.

    params(Sizes, {"steps": st.just(2)})        # draws mappings with the keys of a scenario file

A whole number is within its bounds. Without an upper bound it is at most 8 above the lower bound, which is 0 by
default. A list has up to three items, or more if the model requires them. A `PerRank` value is one default, with
another value for none, some or all of the ranks 0 to 3.

The simplest value is first in every choice, so Hypothesis shrinks a failure to the smallest parameters and not to the
defaults of the model. If the model refuses the drawn parameters, Hypothesis draws again.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, get_args, get_origin

from hypothesis import reject
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from dpsim.scenario.params.shapes import (
    Choice,
    Each,
    Either,
    Fields,
    Many,
    Number,
    Other,
    Shape,
    bound,
    fields,
    shape_of,
)

FURTHER = 8
ITEMS = 3
RANKS = 4


@st.composite
def params(
    draw: st.DrawFn, model: type[BaseModel], instead: Mapping[str, st.SearchStrategy[Any]] | None = None
) -> dict[str, Any]:
    """Draws plain values of all fields of a model. `instead`: strategies for single fields, by their keys in a file.

    Raises ValueError for a key that the model lacks.
    """
    strategies = {**_of_fields(model, frozenset(instead or ())), **(instead or {})}
    found = {key: draw(one) for key, one in strategies.items()}
    try:
        model.model_validate(found)
    except ValidationError:
        reject()
    return found


@functools.lru_cache(1_000)
def _of_fields(model: type[BaseModel], but: frozenset[str]) -> dict[str, st.SearchStrategy[Any]]:
    """None for the fields in `but`, which the caller replaces."""
    shapes = fields(model)
    for key in but - shapes.keys():
        raise ValueError(f"params: {model.__qualname__} has no field {key!r}; expected one of {', '.join(shapes)}")
    found: dict[str, st.SearchStrategy[Any]] = {}
    for key, shape in shapes.items():
        found[key] = st.none() if key in but else values(shape)
        try:
            found[key].validate()
        except Exception as error:
            problem = f"{model.__qualname__}.{key} cannot be drawn ({type(error).__name__}: {error})"
            raise ValueError(f"params: {problem}; give a strategy: params={{{key!r}: ...}}") from None
    return found


def values(shape: Shape) -> st.SearchStrategy[Any]:
    """Returns a strategy for the plain values of a shape."""
    match shape:
        case Number(least, most, step):
            return _numbers(least, most, step)
        case Choice(options):
            return st.sampled_from(options)
        case Many(item, shortest, longest):
            most = max(shortest, ITEMS) if longest is None else min(longest, max(shortest, ITEMS))
            return st.lists(values(item), min_size=shortest, max_size=most)
        case Fields(inner):
            return st.fixed_dictionaries({key: values(one) for key, one in inner.items()})
        case Each(item):
            return st.tuples(values(item), st.dictionaries(st.integers(0, RANKS - 1), values(item))).map(_of_ranks)
        case Either(options):
            return st.one_of([values(one) for one in options])
    return _others(shape)


def _numbers(least: int | None, most: int | None, step: int) -> st.SearchStrategy[int]:
    if least is None:
        least = 0 if most is None else min(0, most - FURTHER * step)
    most = least + FURTHER * step if most is None else most
    return st.integers(-(-least // step), most // step).map(lambda number: number * step)


def _of_ranks(drawn: tuple[Any, dict[int, Any]]) -> Any:
    others, ranks = drawn
    different = {str(rank): value for rank, value in ranks.items() if value != others}
    return {"others": others, **different} if different else others


def _others(shape: Other) -> st.SearchStrategy[Any]:
    annotation, metadata = shape
    pattern = next((one.pattern for one in metadata if getattr(one, "pattern", None)), None)
    if annotation is str and pattern is not None:
        return st.from_regex(pattern, fullmatch=True)
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is dict:
        keys, one = (values(shape_of(part)) for part in inner)
        return st.dictionaries(keys, one, max_size=ITEMS)
    if origin is tuple:
        return st.tuples(*(values(shape_of(part)) for part in inner)).map(list)
    if annotation is float:
        return _fractions(metadata)
    bounded: Any = Annotated[(annotation, *metadata)] if metadata else annotation
    drawn: st.SearchStrategy[Any] = st.from_type(bounded)
    return drawn.map(
        lambda value: TypeAdapter(annotation).dump_python(value, mode="json", by_alias=True, warnings=False)
    )


def _fractions(metadata: Sequence[Any]) -> st.SearchStrategy[float]:
    """As people write them: up to a million without a bound, and none near zero but 0."""
    ge, gt, le, lt = (bound(metadata, name) for name in ("ge", "gt", "le", "lt"))
    least = next((one for one in (ge, gt) if one is not None), -1e6)
    most = next((one for one in (le, lt) if one is not None), 1e6)
    drawn = st.floats(least, most, exclude_min=gt is not None and ge is None, exclude_max=lt is not None and le is None)
    return drawn.filter(lambda number: number == 0 or abs(number) > 1e-9)
