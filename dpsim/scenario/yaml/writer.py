"""Writes a scenario as YAML text for people: only what differs from the defaults, one fault a line.

    >>> taken = [{"port": 20004}, {"port": 20005, "late": True}]
    >>> scenario = Scenario.model_validate({"name": "x", "protocol": "conformance", "ports": taken})
    >>> print(dump_scenario(scenario), end="")
    name: x
    protocol: conformance
    ports:
    - {port: 20004}
    - {port: 20005, late: true}

`parse_scenario(dump_scenario(scenario)) == scenario` for every scenario.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import yaml

from dpsim.scenario.model import Scenario

_NAMES = ("name", "description", "expect")

NEXT_LINE = "\x85"
"""A line break of YAML 1.1. PyYAML escapes it only in double quotes, and indents the text after it in all other
styles.
"""


def dump_scenario(scenario: Scenario) -> str:
    """Returns the YAML text of a scenario, with a newline at its end."""
    dumper = _Representer()
    root = dumper.represent_data(_data(scenario))
    for _, section in root.value:
        _lay_out(section, 1)
    text: str = yaml.serialize(root, Dumper=yaml.SafeDumper, width=110, allow_unicode=True)
    return text


def on_one_line(value: Any) -> str:
    """Returns a plain value as YAML on one line."""
    text: str = yaml.dump(
        _numbered(value), Dumper=yaml.SafeDumper, default_flow_style=True, width=math.inf, sort_keys=False
    )
    return text.removesuffix("\n").removesuffix("\n...")


def changed_sections(scenario: Scenario, base: Scenario) -> str:
    """Sections in which a scenario differs from its base, on one line, without name, description and expectation."""
    data, other = _data(scenario), _data(base)
    differ = {name: value for name, value in data.items() if other.get(name) != value and name not in _NAMES}
    differ |= {name: None for name in other if name not in data and name not in _NAMES}
    own = differ.get("protocol")
    if isinstance(own, dict) and "params" in own:
        differ["protocol"] = own["params"]
        differ = {"params" if name == "protocol" else name: value for name, value in differ.items()}
    return ", ".join(f"{name}: {on_one_line(value)}" for name, value in differ.items())


def excerpt(scenario: Scenario, title: str = "scenario:", most: int = 40) -> str:
    """Returns the YAML text for a report: below `title`, indented, and at most `most` lines."""
    lines = dump_scenario(scenario).splitlines()
    more = [f"... and {len(lines) - most} more lines"] * (len(lines) > most)
    return "\n".join([title, *(f"  {line}" for line in [*lines[:most], *more])])


def _data(scenario: Scenario) -> dict[str, Any]:
    data: dict[str, Any] = scenario.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    protocol = data.get("protocol")
    if scenario.protocol.params is not None:
        protocol = data["protocol"] = {**data["protocol"], "params": _numbered(scenario.protocol.plain_params)}
    if protocol is not None and set(protocol) == {"name"}:
        data["protocol"] = protocol["name"]
    for name, value in dict(scenario).items():
        if name in data and isinstance(value, dict):  # the keys are text in JSON, but may be numbers in YAML
            data[name] = dict(zip(value, data[name].values(), strict=True))
    return data


def _numbered(value: Any) -> Any:
    if isinstance(value, dict):
        ranks = "others" in value
        return {int(key) if ranks and key.isdecimal() else key: _numbered(one) for key, one in value.items()}
    return [_numbered(one) for one in value] if isinstance(value, list) else value


class _Representer(yaml.representer.SafeRepresenter):
    def __init__(self) -> None:
        super().__init__(sort_keys=False)

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_float(self, data: float) -> yaml.ScalarNode:
        """Writes a float without an exponent, because YAML 1.1 reads 1e3 as text."""
        text = format(Decimal(repr(data)), "f") if math.isfinite(data) else repr(data)
        return self.represent_scalar("tag:yaml.org,2002:float", text if "." in text else f"{text}.0")


def _lay_out(node: yaml.Node, depth: int) -> None:
    """Sets the style of a node: sections and lists of mappings on separate lines, other mappings in braces."""
    if isinstance(node, yaml.ScalarNode):
        if NEXT_LINE in node.value:
            node.style = '"'
        elif "\n" in node.value:
            node.style = "|"
        return
    if isinstance(node, yaml.MappingNode):
        children = [child for entry in node.value for child in entry]
        node.flow_style = depth > 1
    elif isinstance(node, yaml.SequenceNode):
        children = node.value
        node.flow_style = not any(isinstance(child, yaml.MappingNode) for child in children)
    for child in children:
        _lay_out(child, depth + 1)


_Representer.add_representer(float, _Representer.represent_float)
