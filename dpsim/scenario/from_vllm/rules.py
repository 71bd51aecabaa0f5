"""What vLLM itself refuses, told before anything runs: the rule, and what breaks it.

    >>> from dpsim.scenario.from_vllm.read import read
    >>> problems(read(["vllm", "serve", "m", "-dp", "2", "--enable-eplb"]))[0].partition(": ")[0]
    'vLLM refuses this (rule of ParallelConfig'

What the scenario's own configuration refuses (thresholds, token budgets) is told by it. Source: specification chapter
8.2; what depends on the machine or on the model is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from dpsim.scenario.errors import ScenarioError
from dpsim.scenario.from_vllm.read import Settings
from dpsim.words import did_you_mean

Breaks: TypeAlias = Callable[[Settings], str | None]
"""What of the settings breaks a rule; None if nothing does."""


class Rule(NamedTuple):
    """`owner`: the class of vLLM that has it. `says`: the rule."""

    owner: str
    says: str
    broken: Breaks


EXECUTORS = ("ray", "mp", "uni", "external_launcher")
MICROBATCHING_BACKENDS = ("deepep_low_latency", "deepep_high_throughput", "nixl_ep")
BACKENDS = (
    *("allgather_reducescatter", "naive", "pplx", "deepep_high_throughput", "deepep_low_latency"),
    *("flashinfer_all2allv", "flashinfer_nvlink_one_sided", "flashinfer_nvlink_two_sided"),
    *("mori", "mori_high_throughput", "mori_low_latency", "nixl_ep", "deepep_v2"),
)


def _when(condition: bool, text: str) -> str | None:
    return text if condition else None


def _size(settings: Settings, name: str) -> int:
    return int(settings.get(f"{name}_parallel_size", 1))


def _local(s: Settings) -> str | None:
    local, replicas = s.get("data_parallel_size_local", 0), _size(s, "data")
    return _when(not 0 <= local <= replicas, f"{local} here, {replicas} in all")


def _rank(s: Settings) -> str | None:
    replicas = _size(s, "data")
    for name in ("data_parallel_rank", "data_parallel_start_rank"):
        rank = s.get(name, 0)
        if not 0 <= rank < replicas:
            return f"{s.typed[name]} {rank} of {replicas}"
    last = s.get("data_parallel_start_rank", 0) + s.get("data_parallel_size_local", 1)
    return _when(last > replicas, f"ranks to {last - 1} here, and {replicas} in all")


def _external(s: Settings) -> str | None:
    asked = "data_parallel_rank" in s.values or s.get("data_parallel_external_lb", False)
    return _when(asked and _size(s, "data") == 1, "--data-parallel-size is 1")


def _rank_alone(s: Settings) -> str | None:
    local = s.get("data_parallel_size_local", 1)
    return _when("data_parallel_rank" in s.values and local != 1, f"--data-parallel-size-local {local}")


def _hybrid(s: Settings) -> str | None:
    if not s.get("data_parallel_hybrid_lb", False):
        return None
    if s.get("headless", False):
        return "--headless"
    return _when("data_parallel_size_local" not in s.values, "no --data-parallel-size-local")


def _eplb_expert_parallel(s: Settings) -> str | None:
    return _when(s.get("enable_eplb", False) and not s.get("enable_expert_parallel", False), "--enable-eplb alone")


def _eplb_ranks(s: Settings) -> str | None:
    ranks = _size(s, "data") * _size(s, "tensor") * _size(s, "prefill_context")
    return _when(s.get("enable_eplb", False) and ranks == 1, "--enable-eplb on one rank")


def _redundant(s: Settings) -> str | None:
    number = s.get("eplb_config.num_redundant_experts", s.get("num_redundant_experts", 0))
    if number < 0:
        return f"num_redundant_experts {number}"
    return _when(number > 0 and not s.get("enable_eplb", False), f"num_redundant_experts {number} alone")


def _eplb_interval(s: Settings) -> str | None:
    logged = s.get("eplb_config.log_balancedness", s.get("eplb_log_balancedness", False))
    interval = s.get("eplb_config.log_balancedness_interval", 1)
    return _when(bool(logged) and interval <= 0, f"log_balancedness_interval {interval}")


def _eplb_async(s: Settings) -> str | None:
    policy = s.get("eplb_config.policy", "default")
    return _when(s.get("eplb_config.use_async", False) is True and policy != "default", f"policy {policy}")


def _all2all(s: Settings) -> str | None:
    backend = s.get("all2all_backend", BACKENDS[0])
    return _when(backend not in BACKENDS, f"{backend}{did_you_mean(backend, BACKENDS)}")


def _dp_backend(s: Settings) -> str | None:
    backend = s.get("data_parallel_backend", "mp")
    return _when(backend not in ("mp", "ray"), f"--data-parallel-backend {backend}")


def _executor(s: Settings) -> str | None:
    name = s.get("distributed_executor_backend", "mp")
    known = name in EXECUTORS or "." in name
    return _when(not known, f"{name}{did_you_mean(name, EXECUTORS)}")


def _nodes_executor(s: Settings) -> str | None:
    name = s.get("distributed_executor_backend", "mp")
    return _when(s.get("nnodes", 1) > 1 and name == "ray", "--distributed-executor-backend ray")


def _node_rank(s: Settings) -> str | None:
    rank, nodes = s.get("node_rank", 0), s.get("nnodes", 1)
    return _when(not 0 <= rank < nodes, f"--node-rank {rank} of {nodes}")


def _nodes_divide(s: Settings) -> str | None:
    nodes, replicas = s.get("nnodes", 1), _size(s, "data")
    local = s.get("data_parallel_size_local", replicas)
    groups = replicas // local if local else 0
    uneven = nodes > 1 and (groups == 0 or replicas % local or nodes % groups)
    return _when(bool(uneven), f"{nodes} nodes, and {local} of {replicas} replicas on each")


def _nsight(s: Settings) -> str | None:
    ray = s.get("distributed_executor_backend", "mp") == "ray"
    return _when(s.get("ray_workers_use_nsight", False) and not ray, "no --distributed-executor-backend ray")


def _context(s: Settings) -> str | None:
    dcp, pcp, tp = (_size(s, name) for name in ("decode_context", "prefill_context", "tensor"))
    fits = dcp >= 1 and (tp % dcp == 0 or (pcp > 1 and dcp in (1, pcp, tp * pcp)))
    return _when(not fits, f"--decode-context-parallel-size {dcp} with {tp} tensor-parallel ranks")


def _microbatches(s: Settings) -> str | None:
    asked = s.get("enable_dbo", False) or s.get("ubatch_size", 0) > 1
    backend = s.get("all2all_backend", BACKENDS[0])
    what = f"--all2all-backend is {backend}; expected one of {', '.join(MICROBATCHING_BACKENDS)}"
    return _when(asked and backend not in MICROBATCHING_BACKENDS, what)


def _async_executor(s: Settings) -> str | None:
    name = s.get("distributed_executor_backend", "mp")
    return _when(s.get("async_scheduling", False) and name == "ray", "--distributed-executor-backend ray")


def _padded_drafter(s: Settings) -> str | None:
    unpadded = s.get("speculative_config.disable_padded_drafter_batch", False) is True
    return _when(s.get("async_scheduling", False) and unpadded, "disable_padded_drafter_batch")


_P, _E, _V = "ParallelConfig", "EPLBConfig", "VllmConfig"
RULES = (
    Rule(_P, "the replicas of a node are some of all", _local),
    Rule(_P, "the rank of a replica is from 0 to the number of replicas - 1", _rank),
    Rule(_P, "external load balancing needs several replicas", _external),
    Rule("EngineArgs", "a command with --data-parallel-rank starts one replica", _rank_alone),
    Rule("EngineArgs", "hybrid load balancing needs an API server and a number of replicas on each node", _hybrid),
    Rule(_P, "expert load balancing needs --enable-expert-parallel", _eplb_expert_parallel),
    Rule(_P, "expert load balancing needs several ranks", _eplb_ranks),
    Rule(_P, "redundant experts are 0 or more, and need --enable-eplb", _redundant),
    Rule(_E, "an interval of logs is above 0", _eplb_interval),
    Rule(_E, "asynchronous expert load balancing needs the default policy", _eplb_async),
    Rule(_P, "the all-to-all backend is one of the known", _all2all),
    Rule(_P, "the backend of data parallelism is mp or ray", _dp_backend),
    Rule(_P, f"the executor is one of {', '.join(EXECUTORS)} or a class", _executor),
    Rule(_P, "several nodes need the executor mp, uni or external_launcher", _nodes_executor),
    Rule(_P, "the rank of a node is from 0 to the number of nodes - 1", _node_rank),
    Rule(_P, "nodes divide evenly among replicas", _nodes_divide),
    Rule(_P, "nsight needs the executor ray", _nsight),
    Rule(_P, "decode context parallelism divides the tensor-parallel ranks", _context),
    Rule(_V, "microbatches need a backend that can overlap them", _microbatches),
    Rule(_V, "asynchronous scheduling needs the executor mp, uni or external_launcher", _async_executor),
    Rule(_V, "asynchronous scheduling needs padded batches of the drafter", _padded_drafter),
)


def problems(settings: Settings) -> list[str]:
    """A line for each rule that is broken, and for a size that is none."""
    return [*_no_sizes(settings)] or [
        f"vLLM refuses this (rule of {rule.owner}: {rule.says}): {what}"
        for rule in RULES
        if (what := rule.broken(settings)) is not None
    ]


def _no_sizes(settings: Settings) -> Iterator[str]:
    for name in ("data", "pipeline", "tensor", "prefill_context", "decode_context"):
        size, typed = _size(settings, name), settings.typed.get(f"{name}_parallel_size")
        if size < 1:
            yield f"{typed}: expected 1 or more, got {size}"


def check(settings: Settings) -> None:
    """Raise ScenarioError with all that vLLM would refuse."""
    if found := problems(settings):
        raise ScenarioError("\n".join(found))


__all__ = ["RULES", "Rule", "check", "problems"]
