"""Parses a command to settings: its flags with their values, each parsed by its type or refused by name.

    >>> settings = read("VLLM_ALL2ALL_BACKEND=naive vllm serve m -dp=4 --enable_dbo --port 80".split())
    >>> settings.model, settings.values
    ('m', {'data_parallel_size': 4, 'enable_dbo': True, 'all2all_backend': 'naive'})
    >>> settings.ignored
    {'--port': 'of the API server'}

JSON keys are values, too, with a dotted name: `values["compilation_config.cudagraph_mode"]`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dpsim.contract.words import did_you_mean, printable, short
from dpsim.scenario.errors import ScenarioError, shown
from dpsim.vllm.from_vllm.environment import read_environment
from dpsim.vllm.from_vllm.flags import SPELLINGS, CommandFlag, flag_of, normal
from dpsim.vllm.from_vllm.nested import KEYS, fate, flat

ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
DASHES = ("\N{HYPHEN}", "\N{EN DASH}", "\N{EM DASH}", "\N{HORIZONTAL BAR}", "\N{MINUS SIGN}")
_OTHERS_FIRST = ("env", "exec", "export", "nohup", "time", "sudo", "uv", "run")
_SIZE = re.compile(r"(\d{1,18})|(\d{1,9}(?:\.\d{1,9})?)([kKmMgG])")
_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


@dataclass
class Settings:
    """`values`: each setting, by vLLM's name. `typed`: as the user spelled it, by the same names.

    `ignored`, `checked`: flags as typed, with the reason. `overruled`: by name, what an environment variable overrides.
    """

    model: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    typed: dict[str, str] = field(default_factory=dict)
    ignored: dict[str, str] = field(default_factory=dict)
    checked: dict[str, str] = field(default_factory=dict)
    overruled: dict[str, tuple[str, Any]] = field(default_factory=dict)

    def put(self, name: str, typed: str, value: Any) -> None:
        """Stores a setting. Raises ScenarioError if the setting already has another value."""
        if name in self.values and self.values[name] != value:
            before, now = (_typed(flag, of) for flag, of in ((self.typed[name], self.values[name]), (typed, value)))
            raise ScenarioError(f"{now} contradicts {before}; give one of them")
        self.values[name], self.typed[name] = value, typed

    def get(self, name: str, default: Any) -> Any:
        """Returns a setting, or its default."""
        return self.values.get(name, default)


def plain(value: Any) -> str:
    """Returns a value as the user types it, on one line."""
    return str(value).lower() if isinstance(value, bool) else printable(short(value, 60))


def _typed(flag: str, value: Any) -> str:
    return flag if isinstance(value, bool) and "." not in flag else f"{flag} {plain(value)}"


def served(words: Sequence[str]) -> tuple[dict[str, str], list[str]] | None:
    """Returns the variables before a command that serves, and the arguments after it; None for any other command."""
    environment: dict[str, str] = {}
    for at, word in enumerate(words):
        rest = list(words[at + 1 :])
        if word.rpartition("/")[2] == "vllm" and rest[:1] == ["serve"]:
            return environment, rest[1:]
        if word.rpartition("/")[2].startswith("python") and rest[:2] == ["-m", "vllm.entrypoints.openai.api_server"]:
            return environment, rest[2:]
        if ASSIGNMENT.match(word):
            name, _, value = word.partition("=")
            environment[name] = value
        elif word not in _OTHERS_FIRST:
            return None
    return None


def read(words: Sequence[str], release: str | None = None) -> Settings:
    """Returns the settings of one command. Raises ScenarioError for the first word that it cannot use."""
    found = served(words)
    assert found is not None, "the words of no command that serves"
    environment, given = found
    settings = Settings()
    models: list[str] = []
    at = 0
    while at < len(given):
        if given[at].startswith("-") and len(given[at]) > 1:
            at = _read_flag(settings, given, at)
        else:
            models.append(given[at])
            at += 1
    models += [settings.values.pop("model")] if "model" in settings.values else []
    for name, (variable, value) in read_environment(environment, settings.ignored, release).items():
        if settings.get(name, value) != value:
            settings.overruled[name] = settings.typed[name], settings.values[name]
        settings.values[name], settings.typed[name] = value, variable  # the variable overrides the flag
    if len(models) > 1:
        raise ScenarioError(
            f"{shown(models[1])} belongs to no flag, and the model is {shown(models[0])}; expected one model"
            f"{_dash(models)}"
        )
    settings.model = models[0] if models else ""
    return settings


def _dash(words: Sequence[str]) -> str:
    other = any(word.startswith(DASHES) for word in words)
    return "; a flag begins with the sign -" if other else ""


def _read_flag(settings: Settings, given: Sequence[str], at: int) -> int:
    typed, equals, value = given[at].partition("=")
    name, _, key = normal(typed).partition(".")
    if found := re.fullmatch(r"-O(\d)", typed):
        name, equals, value = "-O", "=", found[1]
    flag, switched = flag_of(name), True
    if flag is None and name.startswith("--no-"):
        flag, switched = flag_of(f"--{name[5:]}"), False
        flag = flag if flag is not None and flag.takes == "switch" else None
    if flag is None:
        raise ScenarioError(f"unknown flag {typed}{did_you_mean(normal(typed), SPELLINGS)}")
    if flag.verdict == "refused":
        raise ScenarioError(f"{typed} cannot be used: {flag.about}")
    if key and flag.takes != "json":
        raise ScenarioError(f"{typed}: {name} takes no keys; expected {name} VALUE")
    if flag.takes == "switch":
        _switch(settings, flag, typed, equals, switched)
        return at + 1
    values, at = ([value], at + 1) if equals else _values(given, at + 1, flag)
    if not values and flag.takes != "optional":
        raise ScenarioError(f"{typed} has no value; expected {typed} {_expected(flag)}")
    _put(settings, flag, typed, key, values)
    return at


def _values(given: Sequence[str], at: int, flag: CommandFlag) -> tuple[list[str], int]:
    most = len(given) if flag.takes == "values" else 1
    start = at
    while at < len(given) and at - start < most and not re.match(r"--?[A-Za-z]", given[at]):
        at += 1
    return list(given[start:at]), at


def _switch(settings: Settings, flag: CommandFlag, typed: str, equals: str, on: bool) -> None:
    if flag.verdict == "ignored":
        settings.ignored[typed] = flag.about
        return
    if equals:
        raise ScenarioError(f"{typed} takes no value; expected {flag.names[0]} or --no-{flag.names[0][2:]}")
    if flag.verdict == "checked":
        settings.checked[typed] = flag.about
    settings.put(flag.field, typed, on)


def _put(settings: Settings, flag: CommandFlag, typed: str, key: str, values: list[str]) -> None:
    if flag.takes == "json" and flag.field in KEYS:
        _put_keys(settings, flag, typed, key, values[0])
    elif flag.verdict == "ignored":
        if flag.takes == "json" and not key:
            _json(typed, values[0])
        settings.ignored[typed.partition(".")[0]] = flag.about
    else:
        if flag.verdict == "checked":
            settings.checked[typed] = flag.about
        read_values = [_read_value(flag, typed, value) for value in values]
        settings.put(flag.field, typed, tuple(read_values) if flag.takes == "values" else read_values[0])


def _put_keys(settings: Settings, flag: CommandFlag, typed: str, key: str, value: str) -> None:
    base = typed.partition(".")[0]
    if not key and re.fullmatch(r"\d", value) and flag.field == "compilation_config":
        settings.put("optimization_level", typed, int(value))
        return
    if key.endswith("+"):
        key, target = key[:-1], f"{flag.field}.{key[:-1]}"
        more = [*_listed(settings.values.pop(target, [])), *map(_loose, value.split(","))]
        given: dict[str, Any] = {key: more}
    else:
        given = {key: _loose(value)} if key else flat(_json(typed, value), flag.field)
    for name, one in given.items():
        fate_text = fate(base, flag.field, name)
        target = f"{base}.{name}"
        if fate_text.startswith("used: "):
            settings.put(f"{flag.field}.{name}", target, one)
        else:
            settings.ignored[target] = fate_text
            settings.values.setdefault(f"{flag.field}.{name}", one)


def _listed(value: Any) -> list[Any]:
    """If the old value is no list, the key replaces it, as in vLLM."""
    return list(value) if isinstance(value, list | tuple) else []


def _json(typed: str, value: str) -> dict[str, Any]:
    try:
        read_value = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ScenarioError(f"{typed}: {shown(value)} is not JSON: {error}; expected '{{\"key\": value}}'") from None
    if not isinstance(read_value, dict):
        raise ScenarioError(f"{typed}: expected a mapping '{{\"key\": value}}', got {shown(value)}")
    return read_value


def _loose(value: str) -> Any:
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _read_value(flag: CommandFlag, typed: str, value: str) -> Any:
    if flag.reads == "word":
        return value
    if flag.reads == "number" and re.fullmatch(r"-?\d{1,18}", value):
        return int(value)
    if flag.reads == "size" and (size := _SIZE.fullmatch(value)):
        if size[1]:
            return int(size[1])
        if "." in size[2] and size[3].isupper():
            smaller = f"{size[2]}{size[3].lower()}"
            raise ScenarioError(
                f"{typed}: vLLM takes no part of a {size[3]}, got {shown(value)}; did you mean {smaller}?"
            )
        return int(float(size[2]) * _UNITS[size[3]])
    if flag.field == "max_model_len" and value in ("auto", "-1"):
        return None
    variable = "; write what the variable stands for" if "$" in value else ""
    raise ScenarioError(f"{typed}: expected {_expected(flag, long=True)}, got {shown(value)}{variable}")


def _expected(flag: CommandFlag, long: bool = False) -> str:
    if long:
        return "a whole number, or one such as 8k" if flag.reads == "size" else "a whole number"
    return "'{\"key\": value}'" if flag.takes == "json" else "N" if flag.reads != "word" else "VALUE"
