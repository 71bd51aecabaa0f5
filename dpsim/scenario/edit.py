"""Creates and changes scenarios in Python, with the same errors as scenario files.

    scenario = scenario_from({"name": "two", "protocol": "mine"})
    scenario = scenario_from({**dict(scenario), "faults": [...]})

A scenario is immutable, so a change creates a new scenario, which dpsim validates as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from dpsim.contract.registry import load_all
from dpsim.scenario.errors import path_text, scenario_error
from dpsim.scenario.kinds import protocol_of, scenario_type, short_for
from dpsim.scenario.model import Scenario
from dpsim.scenario.yaml.messages import MOST, Explained, explain_all


def scenario_from(mapping: Mapping[str, Any]) -> Scenario:
    """Returns a scenario from a mapping with the keys of a scenario file. Raises ScenarioError with the path of every
    problem.
    """
    short = short_for(mapping)
    if short is not None:
        others = {key: value for key, value in mapping.items() if key != short}
        return scenario_from({**others, "protocol": {"name": short, "params": mapping[short]}})
    kind = scenario_type(protocol_of(mapping))
    try:
        return kind.model_validate(dict(mapping))
    except ValidationError as error:
        if load_all():  # a name in it may belong to an entry point that is not imported yet
            return scenario_from(mapping)
        explained = explain_all(error.errors(include_url=False), kind)
        raise scenario_error([_line(place) for place in explained], max(error.error_count() - MOST, 0)) from None


def _line(place: Explained) -> str:
    path = path_text(place.path[:-1] if place.at == "key" else place.path)
    return f"{path}: {place.message}" if path else place.message
