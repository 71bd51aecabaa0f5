"""The values that a parameter can have: a *shape*, which this module derives from the type and bounds of a field.

    >>> from pydantic import Field
    >>> class Sizes(BaseModel):
    ...     interval: int = Field(4, ge=1, le=8)
    ...     mode: Literal["eager", "graph"] = "eager"
    ...     slots: list[int] = Field([], max_length=3)
    >>> fields(Sizes)["interval"], fields(Sizes)["mode"]
    (Number(least=1, most=8, step=1), Choice(values=('eager', 'graph')))
    >>> fields(Sizes)["slots"]
    Many(item=Number(least=None, most=None, step=1), shortest=0, longest=3)

`dpsim.scenario.small` enumerates the values of a shape, and `dpsim.testing.models` draws them. The values are plain, as
in JSON.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel, RootModel
from pydantic.fields import FieldInfo

from dpsim.scenario.params.per_rank import PerRank


class Number(NamedTuple):
    """Whole numbers. `least`, `most`: the bounds, or None."""

    least: int | None = None
    most: int | None = None
    step: int = 1


class Choice(NamedTuple):
    """Some values. Hypothesis shrinks a failure towards the first one."""

    values: tuple[Any, ...]


class Many(NamedTuple):
    """Lists of `shortest` to `longest` items. `longest` is None without a bound."""

    item: Shape
    shortest: int = 0
    longest: int | None = None


class Fields(NamedTuple):
    """Mappings with the fields of a model."""

    fields: Mapping[str, Shape]
    model: type[BaseModel]

    def defaults(self) -> dict[str, Any]:
        """Returns the plain default of each field that has one."""
        has = {name for name, field in self.model.model_fields.items() if not field.is_required()}
        made: dict[str, Any] = self.model.model_construct().model_dump(mode="json", by_alias=True, include=has)
        return made


class Each(NamedTuple):
    """A value for each rank (`PerRank`)."""

    item: Shape


class Either(NamedTuple):
    """Values of one of several shapes."""

    options: tuple[Shape, ...]


class Other(NamedTuple):
    """All other types: fractions, text, mappings and types of the user."""

    annotation: Any
    metadata: tuple[Any, ...] = ()


Shape: TypeAlias = Number | Choice | Many | Fields | Each | Either | Other


def fields(model: type[BaseModel], within: tuple[Any, ...] = ()) -> dict[str, Shape]:
    """Returns the shape of each field of a model, by its key in a file. `within`: the models that contain this one."""
    return {
        field.alias or name: shape_of(field.annotation, field.metadata, (*within, model))
        for name, field in model.model_fields.items()
    }


def described(model: type[BaseModel]) -> dict[str, str]:
    """Returns the values of each field in words, with its default in parentheses.

    >>> from pydantic import Field
    >>> class Sizes(BaseModel):
    ...     interval: int = Field(4, ge=1, le=8)
    ...     mode: Literal["eager", "graph"]
    >>> described(Sizes)
    {'interval': '1 to 8 (4)', 'mode': 'eager or graph'}
    """
    words = {}
    for name, field in model.model_fields.items():
        default = "" if field.is_required() else f" ({_plain(field.get_default(call_default_factory=True))})"
        words[field.alias or name] = f"{_words(shape_of(field.annotation, field.metadata))}{default}"
    return words


def _words(shape: Shape) -> str:
    match shape:
        case Number(least, None):
            return "a whole number" if least is None else f"{least} or more"
        case Number(None, most):
            return f"{most} or less"
        case Number(least, most):
            return f"{least} to {most}"
        case Choice(values):
            return " or ".join(map(_plain, values))
        case Many(item):
            return f"a list of {_words(item)}"
        case Fields(inner):
            return f"{{{', '.join(inner)}}}"
        case Each(item):
            return f"of each rank {_words(item)}"
        case Either(options):
            return " or ".join(map(_words, options))
    return str(getattr(shape.annotation, "__name__", shape.annotation))


def _plain(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value.plain() if isinstance(value, PerRank) else getattr(value, "value", value))


def shape_of(annotation: Any, metadata: Sequence[Any] = (), around: tuple[Any, ...] = ()) -> Shape:
    """Returns the shape of an annotation. `metadata`: its bounds. A model inside of itself is an `Other`."""
    while get_origin(annotation) is Annotated:
        annotation, *inner = get_args(annotation)
        metadata = [*inner, *metadata]
    parts = [part for one in metadata for part in (one.metadata if isinstance(one, FieldInfo) else [one])]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is int:
        return _number(parts)
    if annotation is bool:
        return Choice((False, True))
    if annotation in (None, type(None)):
        return Choice((None,))
    if origin is Literal:
        return Choice(arguments)
    if origin in (Union, types.UnionType):
        return Either(tuple(shape_of(one, metadata, around) for one in arguments))
    if origin in (list, set, frozenset) or (origin is tuple and arguments[1:] == (...,)):
        return Many(shape_of(arguments[0], (), around), bound(parts, "min_length") or 0, bound(parts, "max_length"))
    if origin is PerRank:
        return Each(shape_of(arguments[0], (), around))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return Choice(tuple(member.value for member in annotation))
    if isinstance(annotation, type) and issubclass(annotation, RootModel):
        root = annotation.model_fields["root"]
        return shape_of(root.annotation, root.metadata, around)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation not in around:
        return Fields(fields(annotation, around), annotation)
    return Other(annotation, tuple(parts))


def _number(parts: Sequence[Any]) -> Number:
    above, below = bound(parts, "gt"), bound(parts, "lt")
    least = [one for one in (bound(parts, "ge"), None if above is None else above + 1) if one is not None]
    most = [one for one in (bound(parts, "le"), None if below is None else below - 1) if one is not None]
    return Number(max(least, default=None), min(most, default=None), bound(parts, "multiple_of") or 1)


def bound(parts: Sequence[Any], name: str) -> Any:
    """The tightest ge, gt, le, lt, multiple_of, min_length or max_length; None without one."""
    tightest = min if name in ("le", "lt", "max_length") else max
    return tightest((value for part in parts if (value := getattr(part, name, None)) is not None), default=None)
