"""CUDA graphs in a scenario: translates `--compilation-config`, `-O`, and the flags that set single keys of it.

    -O0, mode below 3           no graphs, unless a mode of graphs is given
    -O1                         PIECEWISE
    otherwise                   FULL_AND_PIECEWISE, the default
    deepep_high_throughput      no graphs with several replicas, because a rank cannot capture its kernels

    >>> from dpsim.vllm.from_vllm.read import read
    >>> graphs(read(["vllm", "serve", "m", "-O1"])).config
    {'cudagraph_mode': 'PIECEWISE'}

Sources: vLLM's `CompilationConfig` and `VllmConfig`; specification chapters 5.1 (modes) and 8.2 (validation).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dpsim.contract.words import did_you_mean
from dpsim.scenario.errors import ScenarioError, shown
from dpsim.vllm.config import CUDAGraphMode
from dpsim.vllm.from_vllm.read import Settings

VLLM_COMPILE = 3
_MODES = {"NONE": 0, "STOCK_TORCH_COMPILE": 1, "DYNAMO_TRACE_ONCE": 2, "VLLM_COMPILE": VLLM_COMPILE}
_PIECEWISE = (CUDAGraphMode.PIECEWISE, CUDAGraphMode.FULL_AND_PIECEWISE)
_PLAIN_KEYS = {
    "cudagraph_capture_sizes": "cudagraph_capture_sizes",
    "max_cudagraph_capture_size": "max_cudagraph_capture_size",
    "cudagraph_specialize_lora": "cudagraph_specialize_lora",
    "pass_config.enable_sp": "enable_sp",
    "pass_config.enable_sequence_parallelism": "enable_sp",
}


class Graphs(NamedTuple):
    """`config`: fields of the scenario. `notes`: remarks about fields that follow from other settings."""

    config: dict[str, Any]
    notes: tuple[str, ...] = ()


def graphs(settings: Settings) -> Graphs:
    """Raises ScenarioError for an unknown mode, and for PIECEWISE if vLLM does not cut the model into pieces."""
    config: dict[str, Any] = {}
    for key, name in _PLAIN_KEYS.items():
        value = settings.get(f"compilation_config.{key}", None)
        if value is not None:
            config[name] = tuple(value) if isinstance(value, list) else value
            settings.put(name, settings.typed[f"compilation_config.{key}"], config[name])
    mode, compiled = _mode(settings), _compiled(settings)
    notes: tuple[str, ...] = ()
    if mode in _PIECEWISE and compiled < VLLM_COMPILE:
        raise ScenarioError(
            f"vLLM refuses this (rule of VllmConfig: PIECEWISE graphs need compilation mode VLLM_COMPILE): "
            f"cudagraph_mode {mode} with mode {compiled}; expected mode 3, or a cudagraph_mode without PIECEWISE"
        )
    if mode is None and compiled < VLLM_COMPILE:
        mode = CUDAGraphMode.NONE
    elif mode is None and settings.get("optimization_level", 2) == 1:
        mode = CUDAGraphMode.PIECEWISE
    replicas, backend = settings.get("data_parallel_size", 1), settings.get("all2all_backend", None)
    if (
        backend == "deepep_high_throughput"
        and replicas > 1
        and mode != "NONE"
        and not settings.get("enforce_eager", False)
    ):
        mode = CUDAGraphMode.NONE
        notes = ("cudagraph_mode NONE: vLLM captures no graphs with deepep_high_throughput and several replicas",)
    return Graphs(config if mode is None else {**config, "cudagraph_mode": str(mode)}, notes)


def _mode(settings: Settings) -> CUDAGraphMode | None:
    given = settings.get("compilation_config.cudagraph_mode", None)
    if given is None and settings.get("compilation_config.full_cuda_graph", False) is True:
        return CUDAGraphMode.FULL
    if given is None and settings.get("compilation_config.use_cudagraph", True) is False:
        return CUDAGraphMode.NONE
    if given is None:
        return None
    name = str(given).upper().rpartition(".")[2]
    if name not in CUDAGraphMode.__members__:
        known = ", ".join(CUDAGraphMode)
        hint = did_you_mean(name, CUDAGraphMode.__members__)
        raise ScenarioError(f"cudagraph_mode: unknown value {shown(given)}; expected one of {known}{hint}")
    return CUDAGraphMode(name)


def _compiled(settings: Settings) -> int:
    level = settings.get("optimization_level", 2)
    if level not in range(4):
        raise ScenarioError(f"{settings.typed['optimization_level']}: expected a level from 0 to 3, got {level}")
    given = settings.get("compilation_config.mode", settings.get("compilation_config.level", None))
    if given is None:
        return VLLM_COMPILE if level else 0
    mode = _MODES.get(str(given).upper(), given)
    if mode not in range(4):
        raise ScenarioError(
            f"compilation mode: unknown value {shown(given)}; expected 0 to 3, or one of {', '.join(_MODES)}"
        )
    return int(mode)
