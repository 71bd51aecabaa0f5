"""Selects the class that validates a scenario, by the protocol of the scenario.

    scenario_type("waves")       # a program with Params: a ParamsScenario with the model of its parameters
    scenario_type("other")       # any other program: the class that the entry point `default` names

A package that adds sections to scenarios (`dpsim.scenario.parameters`) names its class by the entry point `default` in
the group `dpsim.parameters`. Without such a package, a program without `Params` has one rank.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from dpsim.contract import registry
from dpsim.contract.installed import entry_points
from dpsim.contract.words import BadInput
from dpsim.scenario.model import Scenario

PARAMETERS = "dpsim.parameters"
"""The group of entry points that name classes of scenarios with parameters."""


def scenario_type(protocol: str | None = None) -> type[Scenario]:
    """The class of the named protocol's scenarios; None or unknown: of programs without `Params`.

    Raises BadInput for invalid `Params`.
    """
    model: Any = None
    with suppress(registry.UnknownName):
        model = None if protocol is None else registry.protocol(protocol).program.Params
    if model is None:
        return default_type()
    from dpsim.scenario.params.scenario import scenario_of

    try:
        return scenario_of(model)
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        raise BadInput(f"the protocol {protocol}: its Params cannot be used: {message.partition(chr(10))[0]}") from None


@functools.cache
def default_type() -> type[Scenario]:
    """Returns the class that the entry point names, or `Scenario` if there is none or its import fails."""
    for point in entry_points(group=PARAMETERS, name="default"):
        with suppress(ImportError):
            found: type[Scenario] = point.load()
            return found
    return Scenario


def protocol_of(mapping: Mapping[str, Any]) -> str | None:
    """The name of the protocol, given by a name or by {"name": ...}; otherwise None."""
    choice = mapping.get("protocol")
    name = choice.get("name") if isinstance(choice, Mapping) else getattr(choice, "name", choice)
    return name if isinstance(name, str) else None


def short_for(mapping: Mapping[str, Any]) -> str | None:
    """Returns the key of a mapping that is short for a protocol with its parameters, or None.

        torch: {target: train.py, ranks: 4}        # protocol: {name: torch, params: {target: train.py, ranks: 4}}

    Such a key is the name of a program with `Params`. The mapping must not have the key `protocol`.
    """
    if "protocol" in mapping:
        return None
    for key in mapping:
        if key in default_type().model_fields or not registry.has_protocol(key):
            continue
        if registry.protocol(key).program.Params is not None:
            return key
    return None


def is_registered(mapping: Mapping[str, Any]) -> bool:
    """Returns whether the protocol of a scenario is registered, or missing, which means the default."""
    name = protocol_of(mapping)
    return name is None or registry.has_protocol(name)
