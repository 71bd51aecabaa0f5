"""Reads scenario files: returns a valid `Scenario`, or raises one error with a line for each problem.

    scenario = load_scenario("scenarios/quickstart.yaml")
    Path("copy.yaml").write_text(dump_scenario(scenario))

For any content of the file, the result is a `Scenario` or a `ScenarioError` such as:

    my.yaml:7:3: faults[0].rank: rank 7: the world has 4 ranks, 0 to 3

The reader works in three stages, and each finds other problems:

* From bytes to text: the file is missing, a folder, too large, or not UTF-8.
* From text to nodes (`dpsim.scenario.yaml.nodes`): the text is not YAML, or has duplicate keys, tags or too many
  aliases.
* From nodes to the model (`dpsim.scenario.yaml.messages`): unknown keys, wrong types, contradictions, services and
  nodes that the program lacks.

The last stage is strict: "4" is no number, and 1 is not true. But if a field requires text, the reader uses the source
text of a number, so `form: 0.14` is the form 0.14. Only words that YAML 1.1 reads as truth values (on, off, yes, no)
need quotes there.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from pydantic import ValidationError

from dpsim.contract.registry import load_all
from dpsim.contract.words import did_you_mean
from dpsim.scenario.base import KeyPath
from dpsim.scenario.errors import ScenarioError, path_text, scenario_error
from dpsim.scenario.kinds import protocol_of, scenario_type, short_for
from dpsim.scenario.model import Scenario
from dpsim.scenario.to_world import misnamed_in
from dpsim.scenario.yaml.messages import MOST, Explained, explain, explain_all
from dpsim.scenario.yaml.nodes import KeyNode, Mapping, Misread, Node, NotYaml, Scalar, Sequence, read_nodes

MAX_BYTES = 4 << 20


def load_scenario(path: str | os.PathLike[str]) -> Scenario:
    """Reads a scenario file. Raises ScenarioError, whose text names file, line and column of every problem."""
    return parse_scenario(_read(Path(path)), str(path), Path(path).parent)


def parse_scenario(content: bytes | str, name: str = "scenario", base: Path | None = None) -> Scenario:
    """From text. `name`: of the file, for errors. `base`: the folder of its files. Raises ScenarioError."""
    if len(content) > MAX_BYTES:
        raise _too_large(name)
    try:
        root, problems = read_nodes(_decoded(content, name))
    except NotYaml as error:
        raise _located(name, [error.problem]) from None
    if problems:
        raise _located(name, problems)
    if not isinstance(root, Mapping):
        raise _located(name, [_not_a_mapping(root)])
    _spell_out(root)
    scenario = _validated(root, name)
    found = [_placed(root, Explained(*problem)) for problem in misnamed_in(scenario, base)]
    if found:
        raise _located(name, found)
    return scenario


# ---- bytes to text


def _read(path: Path) -> bytes:
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise ScenarioError(f"{path}: not a regular file; expected a scenario file")
            if about.st_size > MAX_BYTES:
                raise _too_large(str(path))
            return file.read(MAX_BYTES + 1)
    except ScenarioError:
        raise
    except FileNotFoundError:
        beside = [other.name for other in path.parent.glob("*.yaml")] if path.parent.is_dir() else []
        hint = did_you_mean(path.name, beside)
        raise ScenarioError(f"{path}: there is no such file; expected a scenario file{hint}") from None
    except IsADirectoryError:
        raise ScenarioError(f"{path}: a folder; expected a scenario file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ScenarioError(f"{path}: cannot be read: {reason}; expected a readable scenario file") from None


def _without_waiting(path: str, flags: int) -> int:
    """Opens a path without blocking, because opening a FIFO without a writer blocks."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _too_large(name: str) -> ScenarioError:
    size = f"{MAX_BYTES >> 20} MiB"
    return ScenarioError(f"{name}: larger than {size}; expected a scenario, with many requests in a workload's file")


def _decoded(content: bytes | str, name: str) -> str:
    if isinstance(content, str):
        return content
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        message = f"the byte 0x{content[error.start]:02x} is not UTF-8; expected text in UTF-8"
        raise _located(name, [Misread(line, column, message)]) from None


def _not_a_mapping(root: Node | None) -> Misread:
    if root is None or (isinstance(root, Scalar) and root.value is None):
        return Misread(1, 1, "an empty file; expected a scenario, which begins with `name: ...`")
    needed = ", ".join(name for name, field in scenario_type().model_fields.items() if field.is_required())
    what = "a list" if isinstance(root, Sequence) else "a single value"
    return Misread(root.line, root.column, f"{what} at the top; expected the keys of a scenario: {needed}, ...")


# ---- nodes to the model


def _spell_out(root: Mapping) -> None:
    """A key may be short for a protocol with its parameters (`short_for`)."""
    short = short_for(root.data())
    if short is None:
        return
    key, value = root.entries.pop(short)
    name = Scalar(key.line, key.column, short, True, short)
    choice = {"name": KeyNode(name, name), "params": KeyNode(key, value)}
    root.entries["protocol"] = KeyNode(key, Mapping(key.line, key.column, choice))


def _validated(root: Mapping, name: str) -> Scenario:
    while True:
        kind = scenario_type(protocol_of(root.data()))
        try:
            return kind.model_validate_json(json.dumps(root.data()), strict=True)
        except ValidationError as error:
            if load_all():
                continue  # a name in it may belong to an entry point that is not imported yet
            details = error.errors(include_url=False)
            texts = [detail for detail in details if detail["type"] == "string_type"]
            changed = [_take_source_text(root, place.path) for detail in texts for place in explain(detail, kind)]
            if not any(changed):
                problems = [_placed(root, place) for place in explain_all(details, kind)]
                raise _located(name, problems, max(len(details) - MOST, 0)) from None


def _take_source_text(root: Node, path: KeyPath) -> bool:
    entries = _nodes_along(root, path)
    node = entries[-1].value
    if len(entries) <= len(path) or not isinstance(node, Scalar) or not isinstance(node.value, (int, float)):
        return False
    if isinstance(node.value, bool):
        return False
    node.value = node.text
    return True


def _nodes_along(root: Node, path: KeyPath) -> list[KeyNode]:
    entries = [KeyNode(root, root)]
    for part in path:
        node = entries[-1].value
        if isinstance(node, Mapping) and part in node.entries:
            entries.append(node.entries[str(part)])
        elif isinstance(node, Sequence) and isinstance(part, int) and part < len(node.items):
            entries.append(KeyNode(node.items[part], node.items[part]))
        else:
            break
    return entries


def _placed(root: Mapping, place: Explained) -> Misread:
    """The line is that of the key if the key is unknown or has no value, otherwise that of the value."""
    entries = _nodes_along(root, place.path)
    key, value = entries[-1]
    found = len(entries) > len(place.path)
    empty = isinstance(value, Scalar) and value.plain and not value.text
    node = key if empty or (place.at == "key" and found) else value
    path = path_text(place.path[:-1] if place.at == "key" else place.path)
    message = place.message
    if place.at == "value" and found and isinstance(value, Scalar) and isinstance(value.value, bool):
        read = str(value.value).lower()
        message += f" (YAML reads {value.text} as {read})" if value.text.lower() != read else ""
    return Misread(node.line, node.column, f"{path}: {message}" if path else message)


def _located(name: str, problems: list[Misread], untold: int = 0) -> ScenarioError:
    return scenario_error([f"{name}:{line}:{column}: {message}" for line, column, message in sorted(problems)], untold)
