"""What the command line offers for scenarios of engines: other requests for a run, and every small world to explore.

    dpsim run quickstart --workload AzureLLMInferenceTrace_code.csv --requests 1000
    dpsim explore my.yaml --all-up-to ranks=2,requests=2,steps=3

Entry points of the group `dpsim.options` name the functions `run` and `explore`, one for each command
(`dpsim.cli.offered`). This module imports only typer until a command calls one.
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
    """The same with the requests of a trace, or with the first requests only; the step duration stays.

    `workload`: a path from the working folder, if that file exists. Otherwise `run` looks for the name in the folder
    of the scenario and in $DPSIM_DATA. Raises ScenarioError for a name that no file can have. A missing file is an
    error when the run reads the requests.
    """
    if workload is not None:
        given = Path(workload)
        name = str(given.resolve() if given.is_file() else given)
        scenario = _with(scenario, requests=None, synthetic=None, azure_csv={"file": name})
    return scenario if requests is None else _with(scenario, limit=requests)


def _with(scenario: Any, **changes: Any) -> Any:
    from dpsim.scenario import scenario_from

    kept = scenario.workload.model_dump(by_alias=True, exclude={"requests", *changes}, exclude_defaults=True)
    sources = {} if "requests" in changes else {"requests": scenario.workload.requests}
    return scenario_from({**dict(scenario), "workload": {**kept, **sources, **changes}})


def explore(
    scenario: Any,
    all_up_to: Annotated[
        str | None,
        typer.Option(
            metavar="SIZES",
            help="Every small world instead, e.g. ranks=2,requests=2,steps=3; also prompt, output, abort, stages.",
        ),
    ] = None,
) -> Any:
    """Every small scenario like this one, up to sizes (`dpsim.vllm.params.small.Small`). Raises ScenarioError."""
    from dpsim.vllm.params import small

    return None if all_up_to is None else small.Small(scenario, small.scope(all_up_to))
