"""The rules of source page 003 for a parallel configuration, each a separate function (specification 8.2).

A rule reads the given configuration, the completed one, and the surroundings (machine and environment). It returns a
`Broken` with the field to correct, its value and the expected value, or None if the rule holds:

    >>> rule = external_balancer_needs_data_parallelism
    >>> print(rule(Case.of(ParallelValues(data_parallel_external_lb=True))))
    data_parallel_external_lb: True; expected False, as data_parallel_size is 1
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from dpsim.vllm.config.fields import EPLBConfig
from dpsim.vllm.config.surroundings import Surroundings
from dpsim.vllm.config.values import ParallelValues


class Broken(NamedTuple):
    """A broken rule: the field (a nested one with a dot), its value, and the expected value."""

    field: str
    value: Any
    expected: str

    @property
    def message(self) -> str:
        return f"{self.value!r}; expected {self.expected}"

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class Case(NamedTuple):
    """The input of a rule: a configuration as given and as completed (0.33: `ParallelValues033`), and surroundings."""

    given: Any
    config: Any
    around: Surroundings

    @classmethod
    def of(cls, config: ParallelValues, around: Surroundings | None = None) -> Case:
        """Returns a case whose given configuration is already complete."""
        return cls(config, config, around or Surroundings())


Rule: TypeAlias = Callable[[Case], Broken | None]

BACKENDS_003 = (
    "naive",
    "pplx",
    "deepep_high_throughput",
    "deepep_low_latency",
    "allgather_reducescatter",
    "flashinfer_all2allv",
)
EXECUTORS_OF_SEVERAL_NODES = ("mp", "uni", "external_launcher")


def known_all2all_backend(backend: str) -> Broken | None:
    return None if backend in BACKENDS_003 else Broken("all2all_backend", backend, f"one of {', '.join(BACKENDS_003)}")


def known_all2all_backend_around(case: Case) -> Broken | None:
    """An environment variable that overrides the field names a known backend."""
    if "VLLM_ALL2ALL_BACKEND" not in case.around.environ:
        return None
    return known_all2all_backend(case.config.all2all_backend)


def api_rank_below_count(case: Case) -> Broken | None:
    rank, count = case.config.api_process_rank, case.config.api_process_count
    return Broken("_api_process_rank", rank, f"-1, or below _api_process_count, {count}") if rank >= count else None


def local_engines_at_most_all(case: Case) -> Broken | None:
    local, size = case.config.data_parallel_size_local, case.config.data_parallel_size
    if local <= size:
        return None
    return Broken("data_parallel_size_local", local, f"at most data_parallel_size, {size}")


def external_balancer_needs_data_parallelism(case: Case) -> Broken | None:
    size = case.config.data_parallel_size
    if size > 1 or not case.config.data_parallel_external_lb:
        return None
    return Broken("data_parallel_external_lb", True, f"False, as data_parallel_size is {size}")


def eplb_on_its_platforms(case: Case) -> Broken | None:
    if not case.config.enable_eplb or case.around.cuda_alike:
        return None
    return Broken("enable_eplb", True, f"False on {case.around.platform}: only cuda and rocm have it")


def eplb_needs_expert_parallelism(case: Case) -> Broken | None:
    if not case.config.enable_eplb or case.config.enable_expert_parallel:
        return None
    return Broken("enable_expert_parallel", False, "True, as enable_eplb is True")


def eplb_needs_ranks(case: Case) -> Broken | None:
    tp, dp = case.config.tensor_parallel_size, case.config.data_parallel_size
    if not case.config.enable_eplb or tp * dp > 1:
        return None
    return Broken("enable_eplb", True, "False, as tensor_parallel_size and data_parallel_size are 1")


def redundant_experts_need_eplb(case: Case) -> Broken | None:
    number = case.config.eplb_config.num_redundant_experts
    if case.config.enable_eplb or not number:
        return None
    return Broken("eplb_config.num_redundant_experts", number, "0, as enable_eplb is False")


def async_eplb_has_one_policy(case: Case) -> Broken | None:
    eplb = case.config.eplb_config
    if not eplb.use_async or eplb.policy == "default":
        return None
    return Broken("eplb_config.policy", eplb.policy, "'default', as eplb_config.use_async is True")


def logging_needs_an_interval(eplb: EPLBConfig) -> Broken | None:
    if not eplb.log_balancedness or eplb.log_balancedness_interval > 0:
        return None
    return Broken("eplb_config.log_balancedness_interval", eplb.log_balancedness_interval, "more than 0 steps")


def launcher_says_the_rank(case: Case) -> Broken | None:
    if not (case.given.external_launcher and case.given.data_parallel_given) or "RANK" in case.around.environ:
        return None
    value = case.given.distributed_executor_backend
    return Broken("distributed_executor_backend", value, "another one, or RANK among the environment variables")


def rank_within_data_parallel_size(case: Case) -> Broken | None:
    rank, size = case.config.data_parallel_rank, case.config.data_parallel_size
    if not case.given.data_parallel_given or 0 <= rank < size:
        return None
    return Broken("data_parallel_rank", rank, f"0 to {size - 1}, as data_parallel_size is {size}")


def offline_data_parallelism_of_experts(case: Case) -> Broken | None:
    if case.given.data_parallel_given or case.config.data_parallel_size <= 1 or case.config.is_moe_model is not False:
        return None
    size = case.config.data_parallel_size
    return Broken("is_moe_model", False, f"True: VLLM_DP_SIZE is {size}, and dense replicas do not know one another")


def enough_devices(case: Case) -> Broken | None:
    """A completed configuration has an executor, unless it needs more devices than the node has."""
    if case.config.distributed_executor_backend is not None:
        return None
    ranks, devices = case.config.world_size, case.around.devices
    return Broken(
        "distributed_executor_backend",
        None,
        f"ray, or more nodes in nnodes: {ranks} workers, and this node has {devices} devices",
    )


def several_nodes_have_few_executors(case: Case) -> Broken | None:
    executor, nodes = case.config.distributed_executor_backend, case.config.nnodes
    if nodes == 1 or executor is None or executor in EXECUTORS_OF_SEVERAL_NODES:
        return None
    return Broken("distributed_executor_backend", executor, f"mp, uni or external_launcher, as nnodes is {nodes}")


def nsight_needs_ray(case: Case) -> Broken | None:
    if not case.config.ray_workers_use_nsight or case.config.use_ray:
        return None
    return Broken("ray_workers_use_nsight", True, "False, as the workers do not run with Ray")


def ray_is_installed(case: Case) -> Broken | None:
    if not case.config.use_ray or case.around.ray:
        return None
    return Broken("distributed_executor_backend", "ray", "another one: Ray is not installed")


def uneven_nodes(config: ParallelValues) -> Broken | None:
    """Returns a finding if the nodes do not divide evenly among the groups of replicas that share a node."""
    groups = config.data_parallel_size // config.data_parallel_size_local
    if config.nnodes % groups == 0:
        return None
    return Broken("nnodes", config.nnodes, f"a multiple of {groups}, which is data_parallel_size over its local part")


SOURCE_003: tuple[Rule, ...] = (
    known_all2all_backend_around,
    api_rank_below_count,
    local_engines_at_most_all,
    external_balancer_needs_data_parallelism,
    eplb_on_its_platforms,
    eplb_needs_expert_parallelism,
    eplb_needs_ranks,
    redundant_experts_need_eplb,
    async_eplb_has_one_policy,
    launcher_says_the_rank,
    rank_within_data_parallel_size,
    offline_data_parallelism_of_experts,
    enough_devices,
    several_nodes_have_few_executors,
    nsight_needs_ray,
    ray_is_installed,
)

OfOneField: TypeAlias = Callable[[Any], Broken | None]

OF_ONE_FIELD: dict[str, OfOneField] = {
    "all2all_backend": known_all2all_backend,
    "eplb_config": logging_needs_an_interval,
}
"""Rules about one field that the engine checks together with the types of all fields, before any other rule.

So one error names this field and a wrong word in another field together.
"""
