"""The programs that can run a deployment, the form of each, and a workload for it.

In `dp_batch` and `pp_tokens` the ranks agree on each step, so the order of few events can vary. In the other programs
many events race. Their workload contains two short requests, so that an exploration of two engines terminates.

    >>> form_of("engine", "0.33"), form_of("whole_engine_dp", "0.33"), form_of("whole_engine_dp", "0.24")
    ('0.33', 'current', '0.24')
    >>> candidates({"data_parallel_size": 2}), candidates({"pipeline_parallel_size": 2})
    (('dp_batch', 'engine', 'startup', 'whole_engine_dp'), ('pp_tokens', 'startup', 'whole_engine'))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpsim.contract.registry import protocol as program_of
from dpsim.scenario.errors import ScenarioError
from dpsim.vllm.config import EngineConfig
from dpsim.vllm.from_vllm.nodes import replicas_of
from dpsim.vllm.from_vllm.read import Settings
from dpsim.vllm.from_vllm.workload import workload
from dpsim.vllm.params.arguments import SWITCHES
from dpsim.vllm.releases import RELEASES

NEWEST = RELEASES[-1].name
"""The default release, whose rules apply unless the user names another one."""

RACING = ("engine", "startup", "whole_engine_dp", "whole_engine")
"""Programs in which events can race, even with two requests."""

MADE = ("dp_batch", "dbo", "pp_tokens", *RACING)
"""The programs that `--protocol` accepts."""

ALL = "all"

_STACKS = ("whole_engine_dp", "whole_engine")
_FRONT_ENDS = ("engine", *_STACKS)


def main_protocol(sizes: Mapping[str, Any]) -> str:
    """Returns the program that runs a deployment's steps: `pp_tokens` with several stages, else `dp_batch`."""
    return "pp_tokens" if sizes.get("pipeline_parallel_size", 1) > 1 else "dp_batch"


def candidates(sizes: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the programs of `--protocol all`. `sizes` contains the sizes of the parallel groups."""
    if main_protocol(sizes) == "pp_tokens":
        return "pp_tokens", "startup", "whole_engine"
    return "dp_batch", "engine", "startup", "whole_engine_dp"


def checked(protocol: str) -> str:
    """Returns the name of a program, if `--protocol` accepts it. Raises ScenarioError otherwise."""
    if protocol not in MADE:
        raise ScenarioError(f"--protocol: expected one of {', '.join(MADE)}, {ALL}; got {protocol}")
    return protocol


def form_of(protocol: str, release: str) -> str:
    """Returns the form of a program for a release. The programs of whole engines call the newest release `current`."""
    return "current" if protocol in _STACKS and release == NEWEST else release


def front_ends(every: Sequence[Settings]) -> int:
    """`--api-server-count` of all nodes; by default one for each engine that a front end can select.

    Source: `vllm serve` of release 0.33, entrypoints/cli/serve.py.
    """
    first = every[0]
    replicas = first.get("data_parallel_size", 1)
    if first.get("data_parallel_external_lb", False) or "data_parallel_rank" in first.values:
        return int(replicas)
    hybrid = first.get("data_parallel_hybrid_lb", False) or "data_parallel_start_rank" in first.values
    nodes = [one for one in every if not one.get("headless", False)] if hybrid else [first]
    count = 0
    for settings in nodes:
        own = settings.get("api_server_count", len(replicas_of(settings, replicas)) if hybrid else replicas)
        if own < 1:
            typed = settings.typed["api_server_count"]
            raise ScenarioError(f"{typed} {own}: expected 1 or more; with 0 a node has no front end (--headless)")
        count += own
    return int(count)


def adapted(protocol: str, every: Sequence[Settings], config: dict[str, Any]) -> dict[str, Any]:
    """Returns the section `config` for a program: with front ends, and without fields that the program does not use."""
    settings = every[0]
    if protocol in _FRONT_ENDS:
        config = {**config, "_api_process_count": front_ends(every)}
    elif "api_server_count" in settings.values:
        settings.ignored[settings.typed["api_server_count"]] = f"of front ends, which {protocol} does not have"
    heeds = program_of(protocol).program.heeds
    for switch in SWITCHES:
        if heeds is not None and switch not in heeds and config.pop(switch, None):
            config.pop(switch.replace("enable_", "") + "_config", None)
            settings.ignored[settings.typed[switch]] = f"of experts, which {protocol} does not move"
    return config


def load(protocol: str, config: EngineConfig, replicas: int, longest: int | None) -> dict[str, Any]:
    """Returns the section `workload`. `longest` limits the tokens of a request, prompt and output together."""
    if protocol not in RACING:
        return workload(config, replicas, longest)
    requests = 1 if protocol == "startup" else 2
    return {"requests": [{"prompt_tokens": 1, "output_tokens": 1 if requests == 1 else 2} for _ in range(requests)]}


def next_words(protocol: str, file: str) -> str:
    """Returns a line with the commands that the user may type next."""
    more = (
        ""
        if protocol in RACING
        else "; --protocol all -o FOLDER makes scenarios of other programs, in which events race"
    )
    return f"next: dpsim run {file}, then dpsim explore {file}{more}"
