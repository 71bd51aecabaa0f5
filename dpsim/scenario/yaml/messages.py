"""Words pydantic's errors for the author of a scenario: the place, what is wrong, what is expected, and a suggestion.

For example, pydantic reports "Input should be a valid integer, unable to parse string as an integer" at ('faults', 0,
'skip', 'rank'). From this error, the module makes

    path ('faults', 0, 'rank')    message: expected a whole number, got the text 'one'

In the example above, 'skip' is the tag that pydantic adds for a union, and no key of the file. `_walk` follows the
place through the models, so it drops such tags, and it finds the allowed keys. For an unknown key, the message suggests
the nearest allowed key, or names the section to which the key belongs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from dpsim.contract.words import did_you_mean
from dpsim.scenario.base import ALL_TAG, EACH_TAG, OF_A_KEY, RANK_TAG, RULE, SERVICE_TAG, KeyPath, Problem
from dpsim.scenario.errors import shown
from dpsim.scenario.kinds import default_type, is_registered
from dpsim.scenario.model import Scenario

Models: TypeAlias = tuple[type[BaseModel], ...]

FEW_KEYS = 12
MANY_KEYS = 40
MOST = 500

_SECTIONS = ("limits", "expect")
_PARAMS = ("protocol", "params")


class Explained(NamedTuple):
    """`at`: the problem is the key at the end of `path`, the value there, or a key missing inside."""

    path: KeyPath
    message: str
    at: Literal["key", "value", "inside"] = "value"


def explain_all(errors: Sequence[ErrorDetails], kind: type[Scenario]) -> list[Explained]:
    """The first `MOST`: more help no user, and near names take time.

    pydantic also reports a list with wrong items as too short, and that is omitted.
    """
    return [
        explained
        for error in errors[:MOST]
        if error["type"] != "too_short"
        or not any(other["loc"][: len(error["loc"])] == error["loc"] for other in errors if other is not error)
        for explained in explain(error, kind)
    ]


def explain(error: ErrorDetails, of: type[Scenario]) -> list[Explained]:
    """Returns the problems of one pydantic error. A rule that spans several fields may have found several problems."""
    kind, context, value = error["type"], error.get("ctx", {}), error["input"]
    path, models = _walk(error["loc"][:-1] if kind in ("extra_forbidden", "missing") else error["loc"], of)
    if kind == RULE:
        found: tuple[Problem, ...] = context["problems"]
        return [Explained((*path, *problem.path), problem.message) for problem in found]
    if kind == "extra_forbidden":
        key = str(error["loc"][-1])
        return [Explained((*path, key), _unknown_key(key, path, models, of), "key")]
    if kind == "missing":
        if error["loc"][-1] == "rank" and isinstance(value, dict) and "service" in value:
            return []  # the unknown key `service` is reported
        if path == () and error["loc"][-1] in of.sections and isinstance(value, dict) and not is_registered(value):
            return []  # the protocol is unknown, and another one may lack that section
        return [Explained(path, _missing(str(error["loc"][-1]), models), "inside")]
    if kind in ("value_error", "assertion_error"):
        reason = " ".join((str(context.get("error", "")) or error["msg"]).split())
        given = value if isinstance(value, dict) else {}
        named = next((key for key in re.findall(r"\w+", reason) if key in given), None)
        if path[-1:] == (OF_A_KEY,):
            return [Explained(path[:-1], reason, "key")]
        return [Explained((*path, named) if named else path, reason)]
    if kind == "union_tag_invalid":
        return [Explained((*path, "kind"), _not_a_kind(context))]
    message = _value_message(kind, context, value, path, of) or f"{error['msg']}, got {shown(value)}"
    if path[-1:] == (OF_A_KEY,):
        return [Explained(path[:-1], message, "key")]
    return [Explained(path, message)]


# ---- values


def _value_message(kind: str, context: dict[str, Any], value: Any, path: KeyPath, of: type[Scenario]) -> str | None:
    got = _got(value)
    if kind in ("int_type", "int_parsing", "int_from_float", "int_parsing_size"):
        return f"expected a whole number, got {got}{_number_hint(value)}"
    if kind in ("float_type", "float_parsing", "finite_number"):
        return f"expected a number, got {got}{_number_hint(value)}"
    if kind in ("bool_type", "bool_parsing"):
        return f"expected true or false, got {got}"
    if kind == "string_type":
        hint = "; put quotes around it if that is meant" if isinstance(value, bool) else ""
        return f"expected text, got {got}{hint}"
    if kind in ("greater_than_equal", "greater_than", "less_than_equal", "less_than"):
        return _out_of_range(kind, context, value)
    if kind in ("enum", "literal_error"):
        return _not_one_of(path, value, of, context)
    if kind == "union_tag_not_found":
        return "the key 'kind' is missing; expected kind: skip, repeat, alter, insert, die, raise, hang or kill"
    if kind in ("tuple_type", "list_type"):
        return f"expected a list (lines that begin with '- ', or [...]), got {got}"
    if kind in ("model_type", "model_attributes_type", "dict_type", "mapping_type"):
        return f"expected a mapping (lines `key: value`, or {{...}}), got {got}"
    if kind in ("string_too_short", "string_too_long", "too_long", "too_short"):
        return _wrong_length(kind, context, value)
    if kind == "string_pattern_mismatch":
        expected = _PATTERNS.get(path[-1], "a word without spaces")
        if path[:2] == _PARAMS:
            return f"{shown(value)} does not match {context.get('pattern')}; expected text that does"
        return f"{shown(value)} has characters that are not allowed here; expected {expected}"
    if kind == "multiple_of":
        return f"{shown(value)} is no multiple of {context['multiple_of']}; expected one"
    return None


_PATTERNS: dict[str | int, str] = {
    "name": "letters, digits and any of . _ - /",
    "class": "a class such as HANG:COLLECTIVE, or the beginning of one",
    "file": "the name of a file",
}


def _got(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"the truth value {str(value).lower()}"
    if isinstance(value, (int, float)):
        return f"the number {shown(value)}"
    if isinstance(value, str):
        return f"the text {shown(value)}"
    if isinstance(value, BaseModel):
        return "a mapping"
    return "a list" if isinstance(value, (list, tuple)) else "a mapping" if isinstance(value, dict) else shown(value)


def _number_hint(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    text = value.strip()
    if re.fullmatch(r"[-+]?(0|[1-9][0-9_]{0,20})(\.[0-9]+)?", text):
        return "; leave out the quotes"
    if re.fullmatch(r"[-+]?0[0-9_]+|0[xob][0-9a-fA-F_]+|[0-9]+(:[0-9]+)+(\.[0-9]*)?", text):
        return "; to YAML it is octal, hexadecimal, binary or base 60: write it in decimal, without leading zeros"
    if re.fullmatch(r"[-+]?\.(inf|nan)", text, re.IGNORECASE):
        return "; it has to be finite"
    if re.fullmatch(r"[-+]?[0-9][0-9_]*", text):
        return "; it is too large"
    if re.fullmatch(r"[-+]?[0-9.]+[eE][-+]?[0-9]+", text):
        return "; write it without an exponent"
    return ""


def _out_of_range(kind: str, context: dict[str, Any], value: Any) -> str:
    words = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
    bound = next(f"{word} {context[key]}" for key, word in words.items() if key in context)
    return f"{shown(value)} is too {'small' if kind.startswith('greater') else 'large'}; expected {bound}"


def _not_one_of(path: KeyPath, value: Any, of: type[Scenario], context: dict[str, Any]) -> str:
    allowed = _choices(path, of) or re.findall(r"'([^']*)'", str(context.get("expected", "")))
    hint = did_you_mean(value, allowed) if isinstance(value, str) else ""
    what = f"unknown value {shown(value)}" if isinstance(value, str) else f"got {_got(value)}"
    return f"{what}; expected one of {', '.join(allowed)}{hint}"


def _not_a_kind(context: dict[str, Any]) -> str:
    tags = re.findall(r"\w+", str(context["expected_tags"]))
    tag = str(context["tag"])
    return f"unknown kind {shown(tag)}; expected one of {', '.join(tags)}{did_you_mean(tag, tags)}"


def _wrong_length(kind: str, context: dict[str, Any], value: Any) -> str:
    unit = "characters" if kind.startswith("string") else "items"
    if "min_length" in context:
        return f"expected at least {context['min_length']} {unit.removesuffix('s')}, got none"
    length = len(value) if hasattr(value, "__len__") else "more"
    return f"{length} {unit} are too many; expected at most {context['max_length']}"


# ---- keys


def _unknown_key(key: str, path: KeyPath, models: Models, of: type[Scenario]) -> str:
    known = _keys(models)
    if key == "service" and "rank" in known:
        return "unknown key 'service'; a service goes under rank as well: write rank and its name"
    hint = did_you_mean(key, known)
    few = f"; expected one of {_some(known)}" if known and (len(known) <= FEW_KEYS or not hint) else ""
    if not hint:
        places = [*((name,) for name in (*of.sections, *_SECTIONS)), _PARAMS]
        section = next((place for place in places if key in _keys(_walk(place, of)[1])), None)
        if section is not None and path != section:
            return f"unknown key {shown(key)} here{few}; it belongs under {'.'.join(section)}"
    if not path and key in default_type().sections:
        return f"unknown key {shown(key)}; a protocol with Params has no such section: it belongs under protocol.params"
    return f"unknown key {shown(key)}{few}{hint}"


def _some(known: list[str]) -> str:
    if len(known) <= MANY_KEYS:
        return ", ".join(known)
    return f"{', '.join(known[:FEW_KEYS])} and {len(known) - FEW_KEYS} more, all in docs/scenario.schema.json"


def _missing(key: str, models: Models) -> str:
    needed = [
        field.alias or name for model in models[:1] for name, field in model.model_fields.items() if field.is_required()
    ]
    also = f"; expected {', '.join(needed)}" if len(needed) > 1 else ""
    return f"the key {key!r} is missing{also}"


def _keys(models: Models) -> list[str]:
    return list(dict.fromkeys(field.alias or name for model in models for name, field in model.model_fields.items()))


def _choices(path: KeyPath, of: type[Scenario]) -> list[str]:
    _, models = _walk(path[:-1], of)
    for model in models:
        for name, field in model.model_fields.items():
            if (field.alias or name) == path[-1]:
                return [str(choice) for choice in _enumerated(field.annotation)]
    return []


def _enumerated(annotation: Any) -> Iterator[Any]:
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        yield from (member.value for member in annotation)
    for argument in get_args(annotation):
        if isinstance(argument, str):
            yield argument
        elif argument is not type(None):
            yield from _enumerated(argument)


# ---- places


def _walk(loc: tuple[str | int, ...], of: type[Scenario]) -> tuple[KeyPath, Models]:
    """The path in the user's file for pydantic's `loc`, and the models that are possible there."""
    models: Models = (of,)
    path: KeyPath = ()
    for part in loc:
        if part in (RANK_TAG, SERVICE_TAG, ALL_TAG, EACH_TAG):
            continue
        tagged = tuple(model for model in models if part in _tags(model)) if len(models) > 1 else ()
        if tagged:
            models = tagged
            continue
        path = (*path, part)
        if isinstance(part, str) and not part.isdecimal():  # a rank as a key is text in JSON
            models = tuple(
                inner
                for model in models
                for name, field in model.model_fields.items()
                if (field.alias or name) == part
                for inner in _models_in(field.annotation)
            )
    return path, models


def _tags(model: type[BaseModel]) -> tuple[Any, ...]:
    kind = model.model_fields.get("kind")
    return get_args(kind.annotation) if kind else ()


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
