"""Command line options for scenarios of engines: they replace or shorten the requests of a run.

    dpsim run quickstart --workload AzureLLMInferenceTrace_code.csv --requests 1000

This module imports only typer before the command calls `run`, so that a command starts fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def run(
    scenario: Any,
    workload: Annotated[
        str | None, typer.Option(metavar="FILE", help="Take the requests from this Azure trace (CSV).")
    ] = None,
    requests: Annotated[int | None, typer.Option(metavar="N", min=1, help="Take the first N requests only.")] = None,
) -> Any:
    """Returns the scenario with the requests of a trace, or with its first requests only; the step duration stays.

    `workload` is a path from the working folder, if that file exists. Otherwise dpsim looks for the name in the folder
    of the scenario and in $DPSIM_DATA when it reads the requests, and raises FileMissing then. Raises ScenarioError for
    a name that no file can have, and for a scenario without a workload.
    """
    if workload is not None:
        _refuse_without_workload(scenario, "--workload")
        given = Path(workload)
        name = str(given.resolve() if given.is_file() else given)
        if given.is_file():
            _allow(name)
        scenario = _with(scenario, requests=None, synthetic=None, azure_csv={"file": name})
    if requests is None:
        return scenario
    _refuse_without_workload(scenario, "--requests")
    return _with(scenario, limit=requests)


def _allow(name: str) -> None:
    from dpsim.vllm.params.workload.requests import allow_file

    allow_file(name)


def _refuse_without_workload(scenario: Any, option: str) -> None:
    from dpsim.scenario import ScenarioError

    if not hasattr(scenario, "workload"):
        raise ScenarioError(f"{option}: {scenario.protocol.name} has no workload; leave the option out")


def _with(scenario: Any, **changes: Any) -> Any:
    from dpsim.scenario import scenario_from

    kept = scenario.workload.model_dump(by_alias=True, exclude={"requests", *changes}, exclude_defaults=True)
    sources = {} if "requests" in changes else {"requests": scenario.workload.requests}
    return scenario_from({**dict(scenario), "workload": {**kept, **sources, **changes}})
