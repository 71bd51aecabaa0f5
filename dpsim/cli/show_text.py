"""Finds the meanings of a name for `dpsim show`, as plain data and as text.

>>> [one["kind"] for one in meanings("HANG:JOIN")]
['class']
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpsim.checks.classes import CLASSES, row_of
from dpsim.checks.classes import names as names_of_classes
from dpsim.checks.finding import can_match, matches
from dpsim.cli import list_text
from dpsim.cli.console import columns
from dpsim.cli.exit_codes import CODES
from dpsim.cli.hooks import ANNOTATION, all_hooks, how_to_replace, lines_of, of_name
from dpsim.cli.hooks import hooks as hooks_of
from dpsim.cli.named_types import meaning, types_of
from dpsim.contract import interface, registry
from dpsim.contract.keys import keys
from dpsim.diagnose.evidence import kind_words
from dpsim.scenario.locate import bundled_files

Meaning = dict[str, Any]


def names() -> list[str]:
    """Returns all names that `dpsim show` accepts."""
    entries = [*list_text.protocols(), *list_text.variants(), *list_text.backends()]
    forms = [form for entry in list_text.protocols() for form in entry["forms"]]
    hooks = [hook for _, hook in all_hooks()]
    paths = [*(path for hook in hooks for path in hook["classes"]), *types_of(hooks)]
    classes = [path.rpartition(".")[2] for path in paths]
    classes += [hook["name"] for hook in hooks]
    methods = [method["name"] for hook in hooks for method in hook["methods"]]
    calls = [called for one in all_calls() for called in (one["name"], one["name"].rpartition(".")[2])]
    found = [*bundled_files(), *(entry["name"] for entry in entries), *forms, *names_of_classes(), *keys()]
    return [*dict.fromkeys([*found, *calls, *classes, *methods])]


def meanings(name: str) -> list[Meaning]:
    """Returns the meanings of `name`, each with the keys of `dpsim list --json` for its `kind`. A scenario adds its
    `text`, a protocol its `doc`, `file`, `variants` and `hooks`. Only a name without another meaning is looked up as a
    call, a hook, a method of a hook, or a type of a signature.
    """
    found = [*_scenario(name), *_protocol(name), *_form(name), *_variant(name), *_class(name), *_backend(name)]
    found += [*_key(name), *_exit_code(name)]
    return found or [*calls(name), *({"kind": "hook", **hook} for hook in of_name(name)), *_types(name)]


def _scenario(name: str) -> Iterator[Meaning]:
    for entry in list_text.scenarios(name.removesuffix(".yaml")):
        yield {"kind": "scenario", **entry, "text": Path(entry["file"]).read_text()}


def _protocol(name: str) -> Iterator[Meaning]:
    for entry in list_text.protocols():
        if entry["name"] == name:
            program = registry.protocol(name).program
            place = inspect.getsourcefile(program)
            variants = [one.name for one in registry.variants(name)]
            doc = inspect.cleandoc(program.__doc__ or "")
            more = {"doc": doc, "file": place, "variants": variants, "hooks": hooks_of(name)}
            yield {"kind": "protocol", **entry, **more}


def _form(name: str) -> Iterator[Meaning]:
    of_protocols = [entry["name"] for entry in list_text.protocols() if name in entry["forms"]]
    if of_protocols and name != "default":
        yield {"kind": "form", "name": name, "protocols": of_protocols}


def _variant(name: str) -> Iterator[Meaning]:
    """Yields the variant with this name, or those whose class has this name: a finding prints both."""
    classes = {entry.name: entry.make.__qualname__ for entry in registry.variants()}
    for entry in list_text.variants():
        if name in (entry["name"], classes[entry["name"]]):
            yield {"kind": "variant", **entry}


def _class(name: str) -> Iterator[Meaning]:
    rows = [one for one in CLASSES.values() if matches(one.name, name)] or [row_of(name)._replace(name=name)]
    for known in rows if rows[0].words else ():
        found_by = [one.name for one in registry.variants() if one.expected and can_match(known.name, one.expected)]
        yield {
            "kind": "class",
            "name": known.name,
            "family": kind_words(known.name),
            "meaning": known.words,
            "cure": known.cure,
            "variants": found_by,
        }


def _backend(name: str) -> Iterator[Meaning]:
    for entry in list_text.backends():
        if entry["name"] == name:
            yield {"kind": "backend", **entry}


def _key(name: str) -> Iterator[Meaning]:
    if name in keys():
        yield {"kind": "key", "name": name, "meaning": keys()[name]}


def _exit_code(name: str) -> Iterator[Meaning]:
    code = CODES.get(int(name)) if re.fullmatch("[0-9]{1,3}", name) else None
    if code is not None:
        yield {"kind": "exit code", "name": name, "outcome": list(code.outcome), "output": code.output}


def _types(name: str) -> Iterator[Meaning]:
    """Yields the types with this name, or with this import path; a signature may also print `module.Name`."""
    for path, one in types_of([hook for _, hook in all_hooks()]).items():
        if f".{path}".endswith(f".{name}"):
            yield meaning(one)


# ---- text


def as_text(found: list[Meaning]) -> str:
    """Returns the text of each meaning, with the next command to type."""
    return "\n\n".join("\n".join(_LINES[one["kind"]](one)) for one in found)


def _scenario_lines(one: Meaning) -> list[str]:
    rows = [("scenario", one["name"]), ("file", one["file"]), ("next", f"dpsim run {one['name']}")]
    return [*columns(rows), "", *one["text"].rstrip("\n").split("\n")]


def _protocol_lines(one: Meaning) -> list[str]:
    rows = [("protocol", one["name"]), ("file", one["file"]), ("forms", ", ".join(one["forms"]))]
    rows += [("parameter", f"{name}: {values}") for name, values in one.get("params", {}).items()]
    rows += [("variants", ", ".join(one["variants"]))] * bool(one["variants"])
    pieces = [line for hook in one["hooks"] for line in ["", *lines_of(hook)]]
    if pieces:
        pieces[:0] = ["", "A variant derives from the program, or from one of these classes, and overrides methods:"]
    return [*columns(rows), "", *one["doc"].split("\n"), *pieces]


def _hook_lines(one: Meaning) -> list[str]:
    return [*columns([("hook of", ", ".join(one["protocols"]))]), *lines_of(one), "", *how_to_replace(one)]


def _call_lines(one: Meaning) -> list[str]:
    return [
        *columns([("call", one["name"])]),
        one["signature"],
        *(f"    {line}".rstrip() for line in one["doc"].split("\n")),
    ]


def _form_lines(one: Meaning) -> list[str]:
    rows = [("form", one["name"]), ("of", ", ".join(one["protocols"]))]
    first = one["protocols"][0]
    return columns([*rows, ("scenario", f'protocol: {{name: {first}, form: "{one["name"]}"}}')])


def _type_lines(one: Meaning) -> list[str]:
    rows = [("type", one["name"]), ("file", one["file"])]
    rows += [("copy", f"{one['copy']} returns a copy with another value of a field")] * bool(one["copy"])
    doc = ["", *one["doc"].split("\n")] if one["doc"] else []
    return [*columns(rows), *doc, "", *one["text"].split("\n")]


def _variant_lines(one: Meaning) -> list[str]:
    rows = [("variant", one["name"]), ("protocol", one["protocol"]), ("does", one["summary"])]
    rows += [("form", one["form"])] * bool(one["form"])
    rows += (
        [("found as", one["expected"])]
        if one["expected"]
        else [("not found", f"{list_text.NOT_CAUGHT}: {one['reason']}")]
    )
    return columns([*rows, ("scenario", f"protocol: {{name: {one['protocol']}, variant: {one['name']}}}")])


def _class_lines(one: Meaning) -> list[str]:
    rows = [("class", one["name"]), ("family", one["family"]), ("meaning", one["meaning"]), ("cure", one["cure"])]
    rows += [("variants", ", ".join(one["variants"]))] * bool(one["variants"])
    return columns([*rows, ("leave out", f"dpsim run SCENARIO --off '{one['name'].partition(':<')[0]}'")])


def _backend_lines(one: Meaning) -> list[str]:
    here = "runs a world of two ranks here" if one["reason"] is None else f"cannot run here: {one['reason']}"
    return columns([("backend", one["name"]), ("state", here), ("next", f"dpsim run SCENARIO --backend {one['name']}")])


def _key_lines(one: Meaning) -> list[str]:
    return columns([("key", one["name"]), ("meaning", one["meaning"])])


def _exit_code_lines(one: Meaning) -> list[str]:
    rows = [("exit code", one["name"]), *(("means", line) for line in one["outcome"])]
    return columns([*rows, ("output", one["output"]), ("all codes", "docs/exit-codes.md")])


_LINES = {
    "exit code": _exit_code_lines,
    "key": _key_lines,
    "scenario": _scenario_lines,
    "protocol": _protocol_lines,
    "variant": _variant_lines,
    "class": _class_lines,
    "backend": _backend_lines,
    "form": _form_lines,
    "call": _call_lines,
    "hook": _hook_lines,
    "type": _type_lines,
}


@functools.cache
def all_calls() -> tuple[dict[str, Any], ...]:
    """Returns the public methods of the contract in the order of its source. `name`: `Class.method`."""
    classes = [one for one in vars(interface).values() if inspect.isclass(one) and one.__module__ == interface.__name__]
    return tuple(
        {"kind": "call", "name": f"{one.__name__}.{name}", "signature": _signature(name, method), "doc": _doc(method)}
        for one in classes
        for name, method in vars(one).items()
        if inspect.isfunction(method) and not name.startswith("_")
    )


def calls(name: str) -> list[dict[str, Any]]:
    """Returns the calls `name`, a method or `Class.method`."""
    return [one for one in all_calls() if name in (one["name"], one["name"].rpartition(".")[2])]


def _signature(name: str, method: Any) -> str:
    signature = ANNOTATION.sub(r"\1\2", str(inspect.signature(method)))
    return f"{name}{signature.replace('(self, ', '(', 1).replace('(self)', '()', 1)}"


def _doc(method: Any) -> str:
    return inspect.cleandoc(method.__doc__ or "")
