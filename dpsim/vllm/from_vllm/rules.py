"""The rules by which vLLM refuses a command before it starts anything.

`dpsim.vllm.config` contains the rules of the parallel configuration. This module checks them once for each node, with
the settings of the node, and others such as `VllmConfig`'s (specification 8.2).

    >>> from dpsim.vllm.from_vllm.read import read
    >>> problems(read(["vllm", "serve", "m", "-dp", "2", "--enable-dbo"]))[0].partition(": ")[0]
    'vLLM refuses this (rule of VllmConfig'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from dpsim.contract.words import did_you_mean
from dpsim.vllm.config import EngineConfig, Topology, broken_rules
from dpsim.vllm.from_vllm.drafts import HEADS, HOST, ON_DEVICE
from dpsim.vllm.from_vllm.read import Settings, plain

Breaks: TypeAlias = Callable[[Settings], str | None]
"""A function that returns the part of the settings that breaks a rule, or None."""


class Rule(NamedTuple):
    """One rule of vLLM. `owner`: the class of vLLM that checks it. `says`: the rule as a sentence."""

    owner: str
    says: str
    broken: Breaks


EXECUTORS = ("ray", "mp", "uni", "external_launcher")
ASYNC_EXECUTORS = ("mp", "uni", "external_launcher")
OVERLAPPING = ("deepep_low_latency", "deepep_high_throughput", "nixl_ep")
DEFAULT_BACKEND = EngineConfig().all2all_backend


def _when(condition: bool, text: str) -> str | None:
    return text if condition else None


def _rank_alone(s: Settings) -> str | None:
    local = s.get("data_parallel_size_local", 1)
    return _when("data_parallel_rank" in s.values and local != 1, f"--data-parallel-size-local {local}")


def _ranks_of_node(s: Settings) -> str | None:
    replicas, start = s.get("data_parallel_size", 1), s.get("data_parallel_start_rank", 0)
    end = start + s.get("data_parallel_size_local", 1)
    return _when(start > 0 and end > replicas, f"replicas {start} to {end - 1} here, {replicas} in all")


def _hybrid(s: Settings) -> str | None:
    if not s.get("data_parallel_hybrid_lb", False):
        return None
    if s.get("headless", False):
        return "--headless"
    return _when("data_parallel_size_local" not in s.values, "no --data-parallel-size-local")


def _executor(s: Settings) -> str | None:
    name = s.get("distributed_executor_backend", "mp")
    known = name in EXECUTORS or "." in name
    return _when(not known, f"--distributed-executor-backend {name}{did_you_mean(name, EXECUTORS)}")


def _node_rank(s: Settings) -> str | None:
    rank, nodes = s.get("node_rank", 0), s.get("nnodes", 1)
    return _when(not 0 <= rank < nodes, f"--node-rank {rank} of {nodes}")


def _nodes_divide(s: Settings) -> str | None:
    nodes, replicas = s.get("nnodes", 1), s.get("data_parallel_size", 1)
    local = s.get("data_parallel_size_local", replicas)
    groups = replicas // local if local else 0
    uneven = nodes > 1 and (groups == 0 or replicas % local or nodes % groups)
    return _when(bool(uneven), f"{nodes} nodes, and {local} of {replicas} replicas on each")


def _microbatches(s: Settings) -> str | None:
    asked = s.get("enable_dbo", False) or s.get("ubatch_size", 0) > 1
    backend = s.get("all2all_backend", DEFAULT_BACKEND)
    what = f"--all2all-backend is {backend}; expected one of {', '.join(OVERLAPPING)}"
    return _when(asked and backend not in OVERLAPPING, what)


def _async_executor(s: Settings) -> str | None:
    name = s.get("distributed_executor_backend", "mp")
    asked = s.get("async_scheduling", False) and name not in ASYNC_EXECUTORS
    return _when(asked, f"--distributed-executor-backend {plain(name)}")


def _async_drafter(s: Settings) -> str | None:
    method = s.get("speculative_config.method", None)
    refused = method in (*HOST, *HEADS) and method not in ON_DEVICE
    return _when(s.get("async_scheduling", False) and refused, f"method {method}")


def _padded_drafter(s: Settings) -> str | None:
    unpadded = s.get("speculative_config.disable_padded_drafter_batch", False) is True
    return _when(s.get("async_scheduling", False) and unpadded, "disable_padded_drafter_batch")


RULES = (
    Rule("EngineArgs", "a command with --data-parallel-rank starts one replica", _rank_alone),
    Rule("EngineArgs", "the replicas that a node starts are some of all", _ranks_of_node),
    Rule("EngineArgs", "hybrid load balancing needs an API server and a number of replicas on each node", _hybrid),
    Rule("ParallelConfig", f"the executor is one of {', '.join(EXECUTORS)} or a class", _executor),
    Rule("ParallelConfig", "the rank of a node is from 0 to the number of nodes - 1", _node_rank),
    Rule("ParallelConfig", "nodes divide evenly among replicas", _nodes_divide),
    Rule("VllmConfig", "microbatches need a backend that can overlap them", _microbatches),
    Rule("VllmConfig", "asynchronous scheduling needs the executor mp, uni or external_launcher", _async_executor),
    Rule("VllmConfig", "asynchronous scheduling needs drafts of the device: MTP, EAGLE, a model", _async_drafter),
    Rule("VllmConfig", "asynchronous scheduling needs padded batches of the drafter", _padded_drafter),
)


def problems(settings: Settings) -> list[str]:
    """Returns a line for each rule of `RULES` that the settings break."""
    return [
        f"vLLM refuses this (rule of {rule.owner}: {rule.says}): {what}"
        for rule in RULES
        if (what := rule.broken(settings)) is not None
    ]


def parallel_problems(settings: Settings, config: EngineConfig, topology: Topology) -> list[str]:
    """Returns a line for each rule of `ParallelConfig` that a node breaks. `config` has the settings of all nodes."""
    own: dict[str, Any] = {
        "data_parallel_size_local": settings.get("data_parallel_size_local", topology.data_parallel_size),
        "data_parallel_rank": settings.get("data_parallel_rank", settings.get("data_parallel_start_rank", 0)),
        "data_parallel_external_lb": "data_parallel_rank" in settings.values
        or settings.get("data_parallel_external_lb", False),
        **{name: settings.values[name] for name in ("nnodes", "ray_workers_use_nsight") if name in settings.values},
    }
    found = broken_rules(config.model_copy(update=own), topology)
    typed = [settings.typed.get(one.field) or f"--{one.field.replace('_', '-')}" for one in found]
    rules = f"vLLM refuses this (rule of ParallelConfig, {config.parallel_rules})"
    return [f"{rules}: {flag}: {one.message}" for flag, one in zip(typed, found, strict=True)]
