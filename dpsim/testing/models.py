"""Parameters drawn from the types and bounds of a model.

    params(Sizes, {"steps": st.just(2)})        # draws mappings with the keys of a scenario file

A whole number lies between its bounds. Without an upper bound it is at most 8 above the lower bound, which is 0 by
default. Lists have up to three items, or as many as the model asks for. A value of each rank (`PerRank`) differs
for some of the first four ranks. The dullest value comes first in every choice, so a failing example shrinks to the
smallest parameters, not to the defaults of the model. What the model itself refuses is drawn again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, get_args, get_origin

from hypothesis import reject
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from dpsim.scenario.params.shapes import Choice, Each, Either, Fields, Many, Number, Other, Shape, fields, shape_of

FURTHER = 8
ITEMS = 3
RANKS = 4


@st.composite
def params(
    draw: st.DrawFn, model: type[BaseModel], instead: Mapping[str, st.SearchStrategy[Any]] | None = None
) -> dict[str, Any]:
    """Plain values of all fields of a model. `instead`: strategies for single fields, by the key of a file. Raises
    ValueError for a key that is none.
    """
    shapes, own = fields(model), dict(instead or {})
    for key in own.keys() - shapes.keys():
        raise ValueError(f"params: {model.__qualname__} has no field {key!r}; expected one of {', '.join(shapes)}")
    found = {key: draw(own[key] if key in own else values(shape)) for key, shape in shapes.items()}
    try:
        model.model_validate(found)
    except ValidationError:
        reject()
    return found


def values(shape: Shape) -> st.SearchStrategy[Any]:
    """The plain values of a shape."""
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
    """Numbers with a fraction, text, and what else Hypothesis knows of a type and its bounds."""
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
    bounded: Any = Annotated[(annotation, *metadata)] if metadata else annotation
    drawn: st.SearchStrategy[Any] = st.from_type(bounded)
    return drawn.filter(_is_plain)


def _is_plain(value: Any) -> bool:
    """Whether a scenario file has it: NaN and infinity are none of its numbers, nor is one above 64 bits."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, int) or abs(value) < 1 << 63
