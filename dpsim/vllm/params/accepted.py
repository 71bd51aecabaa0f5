"""What the strategy `scenarios` may draw for a program: the parts of scenarios that the program accepts.

A program refuses topologies that it does not model, configurations that do not fit a topology, and some fields of
requests (`Program.heeds`). So this module passes topologies and configurations to the program's `prepare`, and reads
`heeds`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from dpsim.contract import registry
from dpsim.scenario.edit import scenario_from
from dpsim.scenario.errors import ScenarioError
from dpsim.scenario.model import Scenario
from dpsim.scenario.to_world import prepare
from dpsim.vllm.config import EngineConfig, Topology

DEMANDS: tuple[dict[str, Any], ...] = (
    {},
    {"enable_expert_parallel": True, "enable_eplb": True, "eplb_config": {"step_interval": 2}},
)
"""Fields that some programs demand: `eplb` moves experts. With vLLM's default interval, no small scenario moves any."""

SMALLEST = {"requests": [{"prompt_tokens": 1, "output_tokens": 1}]}
"""The smallest workload of a scenario file."""


LONG = 60
"""An error quotes an argument only if its repr has fewer characters than this."""


def validated(key: str, kind: type[Any], value: Any) -> Any:
    """Returns a value of the scenario section `key` as an object of `kind`, and such an object as it is.

    A request may name an adapter. The section `config` decides whether this is valid, so here it allows adapters.
    Raises TypeError for a value of another type, and ScenarioError for a mapping that is invalid in a scenario file.
    """
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        wrong = f"{key}={value!r}" if len(repr(value)) < LONG else f"{key} of type {type(value).__name__}"
        raise TypeError(f"scenarios({wrong}): expected a strategy, a mapping as in a scenario file, or {kind.__name__}")
    adapters = {"config": {"enable_lora": True}} if key == "workload" else {}
    return getattr(scenario_from({"name": "drawn", "workload": SMALLEST, **adapters, key: value}), key)


def accepted(
    protocol: str, form: str | None, variant: str | None, topologies: Sequence[Topology]
) -> tuple[Topology, ...]:
    """Those that the program accepts, in order; all, if it accepts none, so that its error names the reason."""
    return _accepted(protocol, form, variant, topologies)[0] or tuple(topologies)


def demanded(protocol: str, form: str | None, variant: str | None, topologies: Sequence[Topology]) -> dict[str, Any]:
    """Returns the fields of a configuration that the program demands; empty if it accepts vLLM's defaults."""
    config = EngineConfig.model_validate(_accepted(protocol, form, variant, topologies)[1])
    return {field: getattr(config, field) for field in sorted(config.model_fields_set)}


@functools.cache
def _accepted(
    protocol: str, form: str | None, variant: str | None, topologies: Sequence[Topology]
) -> tuple[tuple[Topology, ...], dict[str, Any]]:
    choice = {"name": protocol, "form": form, "variant": variant}
    for fields in DEMANDS:
        config = EngineConfig.model_validate(fields) if fields else None
        found = tuple(one for one in topologies if _accepts(choice, one, config))
        if found:
            return found, fields
    return (), {}


def _accepts(choice: dict[str, str | None], topology: Topology, config: EngineConfig | None = None) -> bool:
    parts = {"topology": topology, "workload": SMALLEST, **({} if config is None else {"config": config})}
    try:
        scenario = scenario_from({"name": "drawn", "protocol": choice, **parts})
    except ScenarioError:
        return False
    return is_accepted(scenario)


OPTIONAL: tuple[dict[str, bool], ...] = (
    {},
    {"async_scheduling": False},
    {"enable_lora": False},
    {"async_scheduling": False, "enable_lora": False},
)
"""Fields that some programs refuse, alone or with some topologies. A stage of a pipeline cannot schedule ahead with the
V1 runner; `whole_engine_dp` without this runner does not read adapters."""


def accepted_config(
    protocol: str, form: str | None, variant: str | None, topology: Topology, config: EngineConfig
) -> EngineConfig:
    """`config`, or the first simpler one that the program accepts; else `config`, and the scenario is dropped."""
    choice = {"name": protocol, "form": form, "variant": variant}
    simpler = (config.model_copy(update=fields) for fields in OPTIONAL)
    return next((one for one in simpler if _accepts(choice, topology, one)), config)


def is_accepted(scenario: Scenario) -> bool:
    """Returns whether the program prepares the scenario."""
    try:
        prepare(scenario)
    except ScenarioError:
        return False
    return True


def reads(protocol: str, field: str) -> bool:
    """Returns whether the program reads this optional field of a request."""
    heeds = registry.protocol(protocol).program.heeds
    return heeds is None or field in heeds
