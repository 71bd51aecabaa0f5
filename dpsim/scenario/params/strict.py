"""Parameters as strict as the rest of a scenario: a key that no model has is an error.

Pydantic ignores such a key by default, and a misspelt parameter would silently keep its default. A model that allows
extra keys (`ConfigDict(extra="allow")`) keeps them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ValidationError, ValidationInfo, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import InitErrorDetails

from dpsim.scenario.base import KeyPath


def strict(model: type[BaseModel]) -> Any:
    """The type of a field that holds such a model and refuses unknown keys at every depth."""

    def check(value: Any, read: ValidatorFunctionWrapHandler, about: ValidationInfo) -> Any:
        if isinstance(value, Mapping):
            _refuse(model, [((key,), value[key]) for key in value if not _knows(model, key)])
        # `value` is of Python by now, where strict means that a list is no tuple, and a word no member of an Enum.
        made = model.model_validate_json(json.dumps(value), strict=True) if about.mode == "json" else read(value)
        _refuse(model, list(_unknown(value, made, ())))
        return made

    return Annotated[model, WrapValidator(check)]


def _refuse(model: type[BaseModel], found: list[tuple[KeyPath, Any]]) -> None:
    lines = [InitErrorDetails(type="extra_forbidden", loc=path, input=value) for path, value in found]
    if lines:
        raise ValidationError.from_exception_data(model.__name__, lines)


def _knows(model: type[BaseModel], key: Any) -> bool:
    """Whether a model reads a key. One whose aliases are no plain words is trusted to look for itself."""
    if model.model_config.get("extra") == "allow":
        return True
    by_name = model.model_config.get("populate_by_name") or model.model_config.get("validate_by_name")
    for name, field in model.model_fields.items():
        alias = field.validation_alias
        if key == (alias or name) or (by_name and key == name) or not isinstance(alias, str | None):
            return True
    return False


def _unknown(value: Any, made: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    """Keys of `value` that the models in `made`, which was read from it, do not have."""
    if isinstance(made, BaseModel) and isinstance(value, Mapping):
        for key, inner in value.items():
            if not _knows(type(made), key):
                yield (*path, key), inner
        for name, field in type(made).model_fields.items():
            key = name if name in value else field.validation_alias
            if isinstance(key, str) and key in value:
                yield from _unknown(value[key], getattr(made, name), (*path, key))
    elif isinstance(made, Mapping) and isinstance(value, Mapping):
        for key, inner in made.items():
            given = key if key in value else str(key)
            if given in value:
                yield from _unknown(value[given], inner, (*path, given))
    elif isinstance(made, (list, tuple)) and isinstance(value, (list, tuple)):
        for number, (given, inner) in enumerate(zip(value, made, strict=False)):
            yield from _unknown(given, inner, (*path, number))
