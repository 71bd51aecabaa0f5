"""Validates parameters as strictly as the rest of a scenario: a key that the model lacks is an error.

By default, pydantic ignores such a key, so a misspelt parameter would silently have its default. A model with
`ConfigDict(extra="allow")` still accepts extra keys.

The module also refuses a model with values that a file cannot store. Otherwise, the saved scenario of a failure would
differ from the one that failed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ValidationError, ValidationInfo, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError, PydanticSerializationError

from dpsim.scenario.base import ALL_TAG, EACH_TAG, OF_A_KEY, KeyPath
from dpsim.scenario.errors import path_text, shown
from dpsim.scenario.params.per_rank import PerRank


def strict(model: type[BaseModel]) -> Any:
    """Returns the type for a field with this model. The type refuses unknown keys at every depth."""

    def check(value: Any, read: ValidatorFunctionWrapHandler, about: ValidationInfo) -> Any:
        given = value if isinstance(value, Mapping) else {}
        wrong = _extra([((key,), one) for key, one in given.items() if not _knows(model, key)])
        try:
            # `value` is Python data here, where a strict model accepts no list for a tuple and no word for an Enum.
            made = model.model_validate_json(json.dumps(value), strict=True) if about.mode == "json" else read(value)
        except ValidationError as error:
            raise at_their_places(error, value, wrong) from None
        except Exception as error:  # an error in the user's own validator
            raise ValueError(f"{model.__qualname__} raised {type(error).__name__}: {error}") from None
        wrong = _extra(_unknown(value, made, ()))
        if wrong:
            raise ValidationError.from_exception_data(model.__name__, wrong)
        return _with_defaults_read(model, made)

    return Annotated[model, WrapValidator(check)]


def _extra(found: Iterable[tuple[KeyPath, Any]]) -> list[InitErrorDetails]:
    return [InitErrorDetails(type="extra_forbidden", loc=path, input=value) for path, value in found]


def _with_defaults_read(model: type[BaseModel], made: Any) -> Any:
    """A second validation, because pydantic does not validate defaults. Raises ValueError."""
    name = model.__qualname__
    if not isinstance(made, model):
        raise ValueError(f"a validator of {name} returned {shown(made)}; expected the model itself")
    try:
        return model.model_validate_json(written(made), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = path_text([part for part in first["loc"] if part not in (ALL_TAG, EACH_TAG)])
        raise ValueError(f"{name}: the default of {place}, {shown(first['input'])}: {first['msg']}") from None
    except (PydanticSerializationError, TypeError, AttributeError) as error:
        raise ValueError(f"{name} has a value that JSON cannot have: {error}") from None


def _knows(model: type[BaseModel], key: Any) -> bool:
    if model.model_config.get("extra") == "allow":
        return True
    by_name = model.model_config.get("populate_by_name") or model.model_config.get("validate_by_name")
    fields = model.model_fields.items()
    return any(key == (field.alias or name) or (by_name and key == name) for name, field in fields)


def _unknown(value: Any, made: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    """Yields the keys of `value` that the models in `made` lack. `made`: the object that pydantic made from `value`."""
    if isinstance(made, BaseModel) and isinstance(value, Mapping):
        for key, inner in value.items():
            if not _knows(type(made), key):
                yield (*path, key), inner
        for name, field in type(made).model_fields.items():
            key = name if name in value else field.alias or name
            if key in value:
                yield from _unknown(value[key], getattr(made, name), (*path, key))
    elif isinstance(made, PerRank):
        each = {"others": made.others, **{str(rank): one for rank, one in made.ranks.items()}}
        if isinstance(value, Mapping) and any(key in each for key in map(str, value)):
            for key, inner in value.items():
                yield from _unknown(inner, each.get(str(key)), (*path, str(key)))
        else:
            yield from _unknown(value, made.others, path)
    elif isinstance(made, Mapping) and isinstance(value, Mapping):
        for key, inner in made.items():
            given = key if key in value else str(key)
            if given in value:
                yield from _unknown(value[given], inner, (*path, given))
    elif isinstance(made, (list, tuple)) and isinstance(value, (list, tuple)):
        for number, (given, inner) in enumerate(zip(value, made, strict=False)):
            yield from _unknown(given, inner, (*path, number))


def written(params: BaseModel) -> str:
    """Returns all parameters as JSON that the model accepts."""
    return params.model_dump_json(by_alias=True, round_trip=True, warnings=False)


def refuse_unwritable(model: type[BaseModel]) -> None:
    """Raises ValueError for a field, at any depth, whose value dpsim could not write and read again."""
    for one in _models(model, set()):
        for name, field in one.model_fields.items():
            reads, writes = field.validation_alias or name, field.serialization_alias or name
            if reads != writes:
                problem = f"the field {name} is read as {reads!r} and written as {writes!r}"
                raise ValueError(f"{one.__qualname__}: {problem}; expected one alias for both, as in Field(alias=...)")
            if field.exclude:
                raise ValueError(
                    f"{one.__qualname__}: the field {name} has exclude=True; a saved scenario would lose it"
                )


def _models(annotation: Any, seen: set[type[BaseModel]]) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation not in seen:
        seen.add(annotation)
        yield annotation
        for field in annotation.model_fields.values():
            yield from _models(field.annotation, seen)
    for argument in get_args(annotation):
        yield from _models(argument, seen)


ABOUT_A_KEY = ("missing", "extra_forbidden")
"""Types of errors whose place ends with a key."""


def at_their_places(error: ValidationError, value: Any, more: list[InitErrorDetails]) -> ValidationError:
    """With a place in `value`, the input, for each line. `more`: further lines to add.

    For `slots: int | str` and [1], pydantic reports errors at ("slots", "int") and ("slots", "str"). Neither word is a
    key of the file, so both become one error at ("slots",).
    """
    found: dict[KeyPath, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        about_key = detail["type"] in ABOUT_A_KEY
        inner, last = (detail["loc"][:-1], detail["loc"][-1:]) if about_key else (detail["loc"], ())
        found.setdefault((*_place(inner, value), *last), []).append(detail)
    return ValidationError.from_exception_data(
        error.title, [*(_line(path, same) for path, same in found.items()), *more]
    )


def _place(loc: tuple[int | str, ...], value: Any) -> KeyPath:
    """Returns the parts of `loc` that are keys or positions in `value`, and the tags that the YAML reader removes."""
    path: KeyPath = ()
    for part in loc:
        if part in (ALL_TAG, EACH_TAG, OF_A_KEY):
            path = (*path, part)
            continue
        named = {str(key): inner for key, inner in value.items()} if isinstance(value, Mapping) else {}
        if str(part) in named:
            path, value = (*path, part), named[str(part)]
        elif isinstance(value, (list, tuple)) and isinstance(part, int) and part < len(value):
            path, value = (*path, part), value[part]
    return path


def _line(path: KeyPath, same: list[ErrorDetails]) -> InitErrorDetails:
    """A single error keeps its type, because `yaml.messages` knows the types."""
    first = same[0]
    kinds = list(dict.fromkeys(one["msg"] for one in same))
    if len(kinds) > 1:
        text = " or: ".join(kinds)
        return InitErrorDetails(
            type=PydanticCustomError("union", "{text}", {"text": text}), loc=path, input=first["input"]
        )
    try:
        return _checked(InitErrorDetails(type=first["type"], loc=path, input=first["input"], ctx=first.get("ctx", {})))
    except (KeyError, TypeError):  # an error type of the user
        own = PydanticCustomError(first["type"], "{text}", {"text": first["msg"]})
        return InitErrorDetails(type=own, loc=path, input=first["input"])


def _checked(line: InitErrorDetails) -> InitErrorDetails:
    ValidationError.from_exception_data("", [line])
    return line
