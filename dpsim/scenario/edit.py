"""Scenarios made and changed in Python, with the errors that files get.

    scenario = scenario_from({"name": "two", "topology": {"data_parallel_size": 2}, "workload": {...}})
    scenario = with_limit(with_workload(scenario, "AzureLLMInferenceTrace_code.csv"), 1000)

Every function returns a new, validated scenario; none is ever changed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dpsim.scenario.errors import path_text, scenario_error
from dpsim.scenario.model import Scenario
from dpsim.scenario.yaml.messages import MOST, Explained, explain_all


def scenario_from(mapping: Mapping[str, Any]) -> Scenario:
    """A scenario from a mapping of the form of a scenario file. Raises ScenarioError with the path of every
    problem.
    """
    try:
        return Scenario.model_validate(dict(mapping))
    except ValidationError as error:
        explained = explain_all(error.errors(include_url=False))
        raise scenario_error([_line(place) for place in explained], max(error.error_count() - MOST, 0)) from None


def with_workload(scenario: Scenario, file: str | os.PathLike[str]) -> Scenario:
    """The same with the requests of a trace instead of its own; step duration and limit stay.

    `file`: a path seen from the working folder if there is such a file, else a name to be looked for in the
    scenario's folder and in $DPSIM_DATA. Raises ScenarioError for a name that no file can have; a missing file
    shows when the requests are read.
    """
    given = Path(file)
    name = str(given.resolve() if given.is_file() else given)
    return _with_workload_fields(scenario, requests=None, synthetic=None, azure_csv={"file": name})


def with_limit(scenario: Scenario, count: int) -> Scenario:
    """The same with only the first `count` requests of its workload (at least 1). Raises ScenarioError."""
    return _with_workload_fields(scenario, limit=count)


def _with_workload_fields(scenario: Scenario, **changes: Any) -> Scenario:
    kept = scenario.workload.model_dump(by_alias=True, exclude={"requests", *changes}, exclude_defaults=True)
    sources = {} if "requests" in changes else {"requests": scenario.workload.requests}
    return scenario_from({**dict(scenario), "workload": {**kept, **sources, **changes}})


def _line(place: Explained) -> str:
    path = path_text(place.path[:-1] if place.at == "key" else place.path)
    return f"{path}: {place.message}" if path else place.message
