"""Lists scenarios, protocols with their forms, variants and backends, as plain data and as text.

>>> [entry["forms"] for entry in protocols() if entry["name"] == "conformance"]
[['default']]

A form is a published version of a protocol. A scenario file with an error is listed with it.
"""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Any

import dpsim.runner as runner
from dpsim.cli.console import columns
from dpsim.contract import registry
from dpsim.contract.program import Program
from dpsim.contract.words import by_number
from dpsim.contract.world import BackendUnavailable
from dpsim.scenario import ScenarioError, load_scenario
from dpsim.scenario.locate import bundled_files

Entries = list[dict[str, Any]]
MUSEUM = "museum/"
NOT_CAUGHT = "no check reports this change, as registered"
"""Words of a variant without a class of findings, before the reason."""
KINDS = ("scenarios", "museum", "protocols", "variants", "backends")


def found(what: str | None = None, only: str | None = None) -> dict[str, Entries]:
    """Returns the entries of the kind `what`, or of all kinds. `only`: a text within a name, or a pattern for whole
    names. Without `what`, the exhibits of the museum are among the scenarios.
    """
    makes = {"scenarios": scenarios, "protocols": protocols, "variants": variants, "backends": backends}
    kinds = {"museum": ["scenarios"]}.get(what or "", [what] if what else [*makes])
    entries = {kind: [entry for entry in makes[kind]() if _named(entry["name"], only)] for kind in kinds}
    if what in ("scenarios", "museum"):
        of_museum = what == "museum"
        entries["scenarios"] = [one for one in entries["scenarios"] if one["name"].startswith(MUSEUM) == of_museum]
    return entries


def _named(name: str, only: str | None) -> bool:
    """Returns whether `name` contains the text `only` or matches it as a pattern. Upper and lower case are equal.

    >>> _named("pp2_padded", "PADDED"), _named("pp2_padded", "pp?_*"), _named("pp2_padded", "dp")
    (True, True, False)
    """
    return only is None or only.lower() in name.lower() or fnmatch(name.lower(), only.lower())


def scenarios(only: str | None = None) -> Entries:
    """Returns the scenarios that come with dpsim, or the one with the name `only`: name, description, file."""
    found = []
    for name, path in bundled_files().items():
        if only not in (None, name):
            continue
        try:
            description = load_scenario(path).description
        except ScenarioError as error:
            first = str(error).partition("\n")[0].partition("; ")[0]  # `dpsim run` prints the whole error
            description = f"cannot be read: {first}"
        found.append({"name": name, "description": " ".join(description.split()), "file": str(path)})
    return found


def protocols() -> Entries:
    """Returns the registered protocols, with the default first among the `forms`. `params`: each parameter with its
    values in words. `protects`, `unprotected`: sentences for each form, if forms differ in their protection.
    """
    return [
        {
            "name": entry.name,
            "forms": list(entry.forms),
            "summary": entry.summary,
            **_protection(entry.program),
            **({} if entry.program.Params is None else {"params": _params(entry.program.Params)}),
        }
        for entry in registry.protocols()
    ]


def _protection(program: type[Program[Any]]) -> dict[str, dict[str, list[str]]]:
    tables = {"protects": program.protects, "unprotected": program.unprotected}
    return {key: {form: list(texts) for form, texts in table.items()} for key, table in tables.items() if table}


def _params(model: type[Any]) -> dict[str, str]:
    from dpsim.scenario.params.shapes import described

    return described(model)


def variants() -> Entries:
    """Returns the registered variants. `expected`: the class that catches it, or None with a `reason`."""
    return [
        {
            "name": entry.name,
            "protocol": entry.protocol,
            "form": entry.form,
            "expected": entry.expected,
            "reason": entry.reason or None,
            "summary": entry.summary,
        }
        for entry in registry.variants()
    ]


def backends() -> Entries:
    """Returns the installed backends. `reason`: why one cannot run a world of two ranks here, or None."""
    found = []
    for name in runner.backend_names():
        try:
            reason = runner.find_backend(name).unavailable(2)
        except ImportError as error:
            reason = f"cannot be loaded: {error}"
        except BackendUnavailable as error:
            reason = str(error)
        found.append({"name": name, "reason": reason})
    return found


def _parameters(entries: Entries) -> dict[str, list[tuple[str, ...]]]:
    rows: list[tuple[str, ...]] = [
        (entry["name"], "; ".join(f"{name} {values}" for name, values in entry["params"].items()))
        for entry in entries
        if "params" in entry
    ]
    return {"parameters (protocol: {name: NAME, params: {PARAMETER: VALUE}})": rows} if rows else {}


def _forms_that(entries: Entries, key: str) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for entry in entries:
        forms: dict[str, list[str]] = {}
        for form, sentences in entry.get(key, {}).items():
            for sentence in sentences:
                forms.setdefault(sentence, []).append(form)
        rows += [(entry["name"], ", ".join(of), sentence) for sentence, of in forms.items()]
    return rows


def _protections(entries: Entries) -> dict[str, list[tuple[str, ...]]]:
    titles = {
        "protects": "forms that protect although no published version does",
        "unprotected": "forms of published versions, and what they leave unprotected",
    }
    return {title: rows for key, title in titles.items() if (rows := _forms_that(entries, key))}


def as_text(found: dict[str, Entries]) -> str:
    """Returns the text of all sections. `found`: the entries by kind."""
    sections = {title: rows for kind, entries in found.items() for title, rows in _sections(kind, entries).items()}
    lines: list[str] = []
    for title, rows in sections.items():
        lines += [f"{title}:", *(f"  {line}" for line in columns(rows, indent=2) or ["none"]), ""]
    return "\n".join(lines[:-1])


def _sections(kind: str, entries: Entries) -> dict[str, list[tuple[str, ...]]]:
    match kind:
        case "scenarios":
            return _scenario_sections(entries)
        case "protocols":
            return {
                "protocols (protocol: {name: NAME, form: FORM})": [(one["name"], one["summary"]) for one in entries],
                "forms, the default first": [(one["name"], ", ".join(one["forms"])) for one in entries],
                **_protections(entries),
                **_parameters(entries),
            }
        case "variants":
            title = "variants, one thing done wrong (protocol: {name: PROTOCOL, variant: NAME})"
            return {title: [(one["name"], one["protocol"], one["summary"]) for one in entries]}
    states = [(one["name"], one["reason"]) for one in entries]
    rows: list[tuple[str, ...]] = [
        (name, "runs here" if reason is None else f"cannot run here: {reason}") for name, reason in states
    ]
    return {"backends (dpsim run NAME --backend BACKEND)": rows}


def _scenario_sections(entries: Entries) -> dict[str, list[tuple[str, ...]]]:
    """Omits an empty section if the other one has rows."""
    described = [(one["name"], one["description"]) for one in entries]
    plain: list[tuple[str, ...]] = [both for both in described if not both[0].startswith(MUSEUM)]
    exhibits: list[tuple[str, ...]] = sorted(
        (both for both in described if both[0].startswith(MUSEUM)), key=lambda both: by_number(both[0])
    )
    title = "museum, the smallest world of each variant (dpsim run NAME; dpsim museum explores them)"
    sections = {"scenarios (dpsim run NAME)": plain, title: exhibits}
    return {title: rows for title, rows in sections.items() if rows or not entries}
