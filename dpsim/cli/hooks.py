"""Finds the hooks of a program, for `dpsim show`: the classes that a variant (a program with one change) may replace.

    hooks("waves")[0]["classes"]         # ["mine.waves.Source"]
    of_name("next_wave")                 # the hooks that have a method of this name

A program asks for them in `prepare` (`dpsim.with_variant`). So this module calls `prepare` with each shipped scenario
of the program, or for a user's program with default parameters.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from dpsim.contract import registry
from dpsim.contract.pieces import REQUESTED
from dpsim.contract.program import Unsuitable
from dpsim.contract.words import BadInput
from dpsim.scenario import Scenario, ScenarioError, load_scenario, scenario_from
from dpsim.scenario.locate import bundled_files
from dpsim.scenario.to_world import prepare

Hook = dict[str, Any]

ANNOTATION = re.compile(r"(: |-> )'([^']*)'")
"""Matches an annotation in a signature: Python prints it in quotes if it is source text."""


def hooks(protocol: str) -> list[Hook]:
    """Returns the hooks of a program: `classes`, import paths from which a variant may derive, and `methods` (name,
    `signature`, `arguments`, `rule`). The `rule` is a first sentence.
    """
    entry = registry.protocol(protocol)
    if entry not in _have_requested:
        _request(entry)
        _have_requested.add(entry)
    variants = {one.make for one in registry.variants()}
    return [
        _hook(base, [one for one in made if one not in variants])
        for base, made in REQUESTED.get(entry.program, {}).items()
    ]


_have_requested: set[registry.ProtocolEntry] = set()
"""The programs whose `prepare` has requested its pieces. `REQUESTED` keeps them."""


def _request(entry: registry.ProtocolEntry) -> None:
    with suppress(ScenarioError, Unsuitable):
        prepare(scenario_from({"name": "hooks", "protocol": entry.name}), None)
    shipped = [one for one in _shipped() if one.protocol.name == entry.name]
    for scenario in sorted(shipped, key=lambda one: one.protocol.form not in (None, entry.forms[0])):
        with suppress(ScenarioError, Unsuitable):
            prepare(scenario, None)


def of_name(name: str) -> list[Hook]:
    """Returns the hooks with a method `name` or `Class.method`, or of a class `name`, with the `protocols` that have
    it. A class may also have its import path, or be the base of the hook's classes, such as `BatchFlow`.
    """
    kind, _, method = name.rpartition(".")
    found: dict[str, Hook] = {}
    for protocol, hook in all_hooks():
        classes = [called for path in hook["classes"] for called in (path, path.rpartition(".")[2])] + [hook["name"]]
        named = [one for one in hook["methods"] if one["name"] == method and kind in ("", *classes)]
        named = hook["methods"] if name in classes else named
        if named:
            same = found.setdefault(hook["classes"][0], {**hook, "methods": named, "protocols": []})
            same["protocols"].append(protocol)
    return list(found.values())


def all_hooks() -> Iterator[tuple[str, Hook]]:
    """Yields the hooks of every program, each with the program's name. Programs with the most variants are first."""
    for entry in sorted(registry.protocols(), key=lambda one: -len(registry.variants(one.name))):
        for hook in _hooks_if_usable(entry.name):
            yield entry.name, hook


def _hooks_if_usable(protocol: str) -> list[Hook]:
    """Returns no hooks for a protocol with invalid `Params`, because the user may ask for another protocol."""
    try:
        return hooks(protocol)
    except BadInput:
        return []


@functools.cache
def _shipped() -> tuple[Scenario, ...]:
    found = []
    for path in bundled_files().values():
        with suppress(ScenarioError):
            found.append(load_scenario(path))
    return tuple(found)


def _hook(base: type[Any], made: list[type[Any]]) -> Hook:
    """Returns the hook for the class `base`. `made`: the classes that the forms of the program use in its place."""
    classes = [one for one in made if _importable(one)] or [base]
    return {
        "name": base.__qualname__,
        "classes": [f"{one.__module__}.{one.__qualname__}" for one in classes],
        "rule": _first_sentence(base),
        "methods": [*methods(classes[0])],
    }


def _importable(piece: type[Any]) -> bool:
    return getattr(sys.modules.get(piece.__module__), piece.__qualname__, None) is piece


def _first_sentence(method_or_class: Any) -> str:
    words = " ".join((inspect.getdoc(method_or_class) or "").partition("\n\n")[0].split())
    return words[: words.index(". ") + 1] if ". " in words else words


_methods_of: dict[type[Any], tuple[dict[str, str], ...]] = {}


def methods(piece: type[Any]) -> tuple[dict[str, str], ...]:
    """Returns the public methods of a class in the order of the source, those of its base class first."""
    if piece not in _methods_of:
        _methods_of[piece] = tuple(_methods(piece))
    return _methods_of[piece]


def _methods(piece: type[Any]) -> Iterator[dict[str, str]]:
    package = piece.__module__.partition(".")[0]
    names = [name for base in reversed(piece.__mro__) if base.__module__.startswith(package) for name in vars(base)]
    for name in dict.fromkeys(names):
        method = inspect.getattr_static(piece, name)
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        arguments = ", ".join(inspect.signature(method).parameters)
        signature = ANNOTATION.sub(r"\1\2", str(inspect.signature(method)))
        begins = "async " if inspect.iscoroutinefunction(method) else ""
        rule = _first_sentence(getattr(piece, name))
        yield {"name": name, "signature": f"{begins}{name}{signature}", "arguments": arguments, "rule": rule}


# ---- text


def lines_of(hook: Hook) -> list[str]:
    """Returns the lines of a hook: its class, and each method."""
    first, *others = hook["classes"]
    also = f" (also {', '.join(path.rpartition('.')[2] for path in others)})" if others else ""
    lines = [f"{first}{also}", f"    {hook['rule']}"] if hook["rule"] else [f"{first}{also}"]
    for method in hook["methods"]:
        lines += [f"    {method['signature']}"] + [f"        {method['rule']}"] * bool(method["rule"])
    return lines


def how_to_replace(hook: Hook) -> list[str]:
    """Returns the source of a variant that overrides the first method of a hook, for the user to copy."""
    module, _, name = hook["classes"][0].rpartition(".")
    method = hook["methods"][0]
    begins = "async def" if method["signature"].startswith("async ") else "def"
    passed = method["arguments"].partition(", ")[2]
    return [
        "from dpsim import register_variant",
        f"from {module} import {name}",
        "",
        f'@register_variant("MINE-1", protocol="{hook["protocols"][0]}", expected=None, reason="mine")',
        f"class Mine({name}):",
        f"    {begins} {method['name']}({method['arguments']}):",
        f"        {'return await' if begins != 'def' else 'return'} super().{method['name']}({passed})",
    ]
