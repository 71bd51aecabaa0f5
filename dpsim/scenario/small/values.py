"""The values of one parameter up to a size, the smallest first.

`Limits` maps the name of each parameter that varies to its size: `interval`, `work.tokens`, `slots.item`. The size None
means all values, for a choice or a number with bounds. A parameter without a size keeps the value of the scenario. But
an item of a list has no such value, so a field of the item has its default or, without a default, every value.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, TypeAlias

from dpsim.scenario.errors import ScenarioError
from dpsim.scenario.params.shapes import Choice, Each, Either, Fields, Many, Number, Shape

Limits: TypeAlias = Mapping[str, int | None]

LARGEST = 100_000
"""The largest number of worlds for one `--all-up-to`."""

OPTION = "--all-up-to"
MISSING = object()
"""Marks a parameter for which the scenario gives no value."""


def refuse_many(worlds: int) -> None:
    if worlds > LARGEST:
        raise ScenarioError(f"{OPTION}: these are {worlds:,} worlds; expected at most {LARGEST:,}: take smaller sizes")


def values(shape: Shape, name: str, limits: Limits, given: Any) -> list[Any]:
    """The smallest first, or only `given` without a size. ScenarioError: the size does not fit the shape."""
    varied = name in limits or any(key.startswith(f"{name}.") for key in limits)
    if given is not MISSING and not varied:
        return [given]
    if isinstance(shape, Fields):
        known = given if isinstance(given, dict) else shape.defaults()
        inner = {
            key: values(one, f"{name}.{key}", limits, known.get(key, MISSING)) for key, one in shape.fields.items()
        }
        return [dict(zip(inner, chosen, strict=True)) for chosen in product(*inner.values())]
    if isinstance(shape, Many):
        return _lists(shape, name, limits, given)
    if isinstance(shape, Each):
        return values(shape.item, name, limits, MISSING)
    if isinstance(shape, Either):
        return [value for one in shape.options for value in values(one, name, _only(limits, name, one), MISSING)]
    if isinstance(shape, Choice):
        if limits.get(name) is not None:
            raise ScenarioError(f"{OPTION}: {name} has {len(shape.values)} values and no size; write {name} alone")
        return list(shape.values)
    if isinstance(shape, Number):
        return _numbers(shape, name, limits)
    raise ScenarioError(f"{OPTION}: {name} is no whole number, choice or list; give its value in the scenario")


def _only(limits: Limits, name: str, shape: Shape) -> Limits:
    """Returns the limits for one option of a union such as `int | None`: the size only applies to the numbers."""
    return {**limits, name: None} if isinstance(shape, Choice) else limits


def _lists(shape: Many, name: str, limits: Limits, given: Any) -> list[Any]:
    inner = name if isinstance(shape.item, Fields) else f"{name}.item"
    if name not in limits and given is MISSING:
        raise _no_size(name, shape.shortest, shape.longest, None)
    if name not in limits:
        items = [values(shape.item, inner, limits, one) for one in given]
        return [list(chosen) for chosen in product(*items)]
    most = shape.longest if limits[name] is None else limits[name]
    if most is None or most < shape.shortest or (shape.longest is not None and most > shape.longest):
        raise _no_size(name, shape.shortest, shape.longest, limits[name])
    within = {key: value for key, value in limits.items() if key != name}
    items = values(shape.item, inner, within, MISSING)
    refuse_many(sum(len(items) ** length for length in range(shape.shortest, most + 1)))
    return [list(chosen) for length in range(shape.shortest, most + 1) for chosen in product(items, repeat=length)]


def _numbers(shape: Number, name: str, limits: Limits) -> list[int]:
    least = 0 if shape.least is None else shape.least
    most = shape.most if limits.get(name) is None else limits[name]
    if most is None or most < least or (shape.most is not None and most > shape.most):
        raise _no_size(name, least, shape.most, limits.get(name))
    return list(range(-(-least // shape.step) * shape.step, most + 1, shape.step))


def _no_size(name: str, least: int, most: int | None, got: int | None) -> ScenarioError:
    span = f"from {least} on" if most is None else f"from {least} to {most}"
    problem = f"{name} has no size" if got is None else f"{name}={got}"
    return ScenarioError(
        f"{OPTION}: {problem}; expected a number {span}, as in {name}={least if most is None else most}"
    )
