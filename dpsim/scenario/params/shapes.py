"""What values a parameter can have, read from its type and bounds in the model.

    >>> from pydantic import Field
    >>> class Sizes(BaseModel):
    ...     interval: int = Field(4, ge=1, le=8)
    ...     mode: Literal["eager", "graph"] = "eager"
    ...     slots: list[int] = Field([], max_length=3)
    >>> fields(Sizes)["interval"], fields(Sizes)["mode"]
    (Number(least=1, most=8, step=1), Choice(values=('eager', 'graph')))
    >>> fields(Sizes)["slots"]
    Many(item=Number(least=None, most=None, step=1), shortest=0, longest=3)

`dpsim.scenario.small` enumerates the values of a shape, and `dpsim.testing.models` draws them, so both know the
same types. Values are plain, as JSON has them.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dpsim.scenario.params.per_rank import PerRank


class Number(NamedTuple):
    """Whole numbers. `least`, `most`: None without a bound."""

    least: int | None = None
    most: int | None = None
    step: int = 1


class Choice(NamedTuple):
    """Some values, the first the dullest."""

    values: tuple[Any, ...]


class Many(NamedTuple):
    """Lists of `shortest` to `longest` items; `longest` is None without a bound."""

    item: Shape
    shortest: int = 0
    longest: int | None = None


class Fields(NamedTuple):
    """Mappings with the fields of a model."""

    fields: Mapping[str, Shape]
    model: type[BaseModel]

    def defaults(self) -> dict[str, Any]:
        """The plain value of each field that has a default."""
        has = {name for name, field in self.model.model_fields.items() if not field.is_required()}
        made: dict[str, Any] = self.model.model_construct().model_dump(mode="json", by_alias=True, include=has)
        return made


class Each(NamedTuple):
    """A value for each rank."""

    item: Shape


class Either(NamedTuple):
    """Values of one shape or another."""

    options: tuple[Shape, ...]


class Other(NamedTuple):
    """All other types: numbers with a fraction, text, mappings, whatever a user defines."""

    annotation: Any
    metadata: tuple[Any, ...] = ()


Shape: TypeAlias = Number | Choice | Many | Fields | Each | Either | Other


def fields(model: type[BaseModel]) -> dict[str, Shape]:
    """The shape of each field of a model, by the key that a file has."""
    return {
        field.alias or name: shape_of(field.annotation, field.metadata) for name, field in model.model_fields.items()
    }


def described(model: type[BaseModel]) -> dict[str, str]:
    """The values of each field in words, with its default.

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
    """As YAML has it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value.plain() if isinstance(value, PerRank) else getattr(value, "value", value))


def within(shape: Shape, plain: Any, size: int) -> Any:
    """A plain value without values of ranks from `size` on.

    >>> within(Each(Number()), {"others": 1, "0": 2, "3": 4}, 2)
    {'others': 1, '0': 2}
    """
    match shape:
        case Each() if isinstance(plain, dict) and "others" in plain:
            return {key: one for key, one in plain.items() if key == "others" or int(key) < size}
        case Many(item) if isinstance(plain, list):
            return [within(item, one, size) for one in plain]
        case Fields(inner) if isinstance(plain, dict):
            return {key: within(inner[key], one, size) if key in inner else one for key, one in plain.items()}
    return plain


def shape_of(annotation: Any, metadata: Sequence[Any] = ()) -> Shape:
    """The shape of an annotation with further metadata, such as bounds."""
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
        return Either(tuple(shape_of(one, metadata) for one in arguments))
    if origin in (list, set, frozenset) or (origin is tuple and arguments[1:] == (...,)):
        return Many(shape_of(arguments[0]), _of(parts, "min_length", max) or 0, _of(parts, "max_length", min))
    if origin is PerRank:
        return Each(shape_of(arguments[0]))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return Choice(tuple(member.value for member in annotation))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return Fields(fields(annotation), annotation)
    return Other(annotation, tuple(parts))


def _number(parts: Sequence[Any]) -> Number:
    above, below = _of(parts, "gt", max), _of(parts, "lt", min)
    least = [bound for bound in (_of(parts, "ge", max), None if above is None else above + 1) if bound is not None]
    most = [bound for bound in (_of(parts, "le", min), None if below is None else below - 1) if bound is not None]
    return Number(max(least, default=None), min(most, default=None), _of(parts, "multiple_of", max) or 1)


def _of(parts: Sequence[Any], bound: str, tightest: Any) -> Any:
    """The tightest bound of that name."""
    return tightest((value for part in parts if (value := getattr(part, bound, None)) is not None), default=None)
