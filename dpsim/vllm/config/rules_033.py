"""The rules of release 0.33 for a parallel configuration: those of source 003, partly changed, and new ones.

    >>> from dpsim.vllm.config.values import ParallelValues033
    >>> few = ParallelValues033(enable_dbo=True, dbo_decode_token_threshold=1)
    >>> print(thresholds_fill_all_microbatches(Case.of(few)))
    dbo_decode_token_threshold: 1; expected at least 2, the number of microbatches

Source: specification chapter 8.2 (validation).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dpsim.vllm.config import rules
from dpsim.vllm.config.fields import EPLBConfig
from dpsim.vllm.config.rules import Broken, Case, OfOneField, Rule

CPU_LIST = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")


def data_parallel_rank_from_0(rank: int) -> Broken | None:
    return Broken("data_parallel_rank", rank, "0 or more") if rank < 0 else None


def rpc_port_is_a_port(case: Case) -> Broken | None:
    port = case.config.data_parallel_rpc_port
    return None if 1 <= port <= 65535 else Broken("data_parallel_rpc_port", port, "1 to 65535")


def eplb_counts_are_positive(eplb: EPLBConfig) -> Broken | None:
    for name in ("window_size", "step_interval", "log_balancedness_interval"):
        value = getattr(eplb, name)
        if value < 1:
            return Broken(f"eplb_config.{name}", value, "more than 0 steps")
    return None


def eplb_on_its_platforms(case: Case) -> Broken | None:
    if not case.config.enable_eplb or case.around.cuda_alike or case.around.platform == "xpu":
        return None
    return Broken("enable_eplb", True, f"False on {case.around.platform}: only cuda, rocm and xpu have it")


def eplb_needs_ranks(case: Case) -> Broken | None:
    config = case.config
    ranks = config.tensor_parallel_size * config.prefill_context_parallel_size * config.data_parallel_size
    if not config.enable_eplb or ranks > 1:
        return None
    return Broken("enable_eplb", True, "False, as tensor, prefill context and data parallel sizes are 1")


def async_eplb_has_no_nccl(case: Case) -> Broken | None:
    """Reads the given value: the default of elastic EP is pynccl, and separate rules limit that case."""
    communicator = case.given.eplb_config.communicator
    if not case.config.eplb_config.use_async or communicator not in ("torch_nccl", "pynccl"):
        return None
    expected = "torch_gloo, nixl or none given, as eplb_config.use_async is True"
    return Broken("eplb_config.communicator", communicator, expected)


def thresholds_fill_all_microbatches(case: Case) -> Broken | None:
    parts = case.config.num_ubatches
    for name in ("dbo_decode_token_threshold", "dbo_prefill_token_threshold"):
        value = getattr(case.config, name)
        if case.config.use_ubatching and value < parts:
            return Broken(name, value, f"at least {parts}, the number of microbatches")
    return None


def decode_context_groups_fit(case: Case) -> Broken | None:
    config = case.config
    tp, pcp = config.tensor_parallel_size, config.prefill_context_parallel_size
    dcp = config.decode_context_parallel_size
    if pcp == 1:
        expected = f"a divisor of tensor_parallel_size, {tp}"
        return Broken("decode_context_parallel_size", dcp, expected) if tp % dcp else None
    if dcp in (1, pcp, tp * pcp):
        return None
    expected = f"1, {pcp} or {tp * pcp}, as prefill_context_parallel_size is {pcp}"
    return Broken("decode_context_parallel_size", dcp, expected)


def decode_exchange_needs_context_parallelism(case: Case) -> Broken | None:
    if case.config.dcp_comm_backend == "ag_rs" or case.config.decode_context_parallel_size > 1:
        return None
    return Broken("dcp_comm_backend", case.config.dcp_comm_backend, "ag_rs, as decode_context_parallel_size is 1")


def elastic_ep_needs_eplb(case: Case) -> Broken | None:
    if not case.config.enable_elastic_ep or case.config.enable_eplb:
        return None
    return Broken("enable_elastic_ep", True, "False, as enable_eplb is False")


def elastic_ep_has_one_stage(case: Case) -> Broken | None:
    stages = case.config.pipeline_parallel_size
    if not case.config.enable_elastic_ep or stages == 1:
        return None
    return Broken("enable_elastic_ep", True, f"False, as pipeline_parallel_size is {stages}")


def elastic_ep_has_no_hybrid_balancer(case: Case) -> Broken | None:
    if not (case.config.enable_elastic_ep and case.config.data_parallel_hybrid_lb):
        return None
    return Broken("enable_elastic_ep", True, "False, as data_parallel_hybrid_lb is True")


def elastic_ep_moves_experts_over_nixl(case: Case) -> Broken | None:
    if not (case.config.enable_elastic_ep and case.config.eplb_config.use_async) or case.around.nixl:
        return None
    return Broken("eplb_config.use_async", True, "False: elastic EP needs NIXL for it, which is not installed")


def elastic_ep_has_room(case: Case) -> Broken | None:
    most, size = case.config.elastic_ep_max_dp_size, case.config.data_parallel_size
    if not case.config.enable_elastic_ep or most is None or most >= size:
        return None
    return Broken("elastic_ep_max_dp_size", most, f"at least data_parallel_size, {size}")


def fault_tolerance_has_one_server(case: Case) -> Broken | None:
    count = case.config.api_process_count
    if not case.config.enable_fault_tolerance or count == 1:
        return None
    return Broken("enable_fault_tolerance", True, f"False, as _api_process_count is {count}")


def numa_lists_need_binding(case: Case) -> Broken | None:
    for name in ("numa_bind_nodes", "numa_bind_cpus"):
        value = getattr(case.config, name)
        if value is not None and not case.config.numa_bind:
            return Broken(name, value, "none given, as numa_bind is False")
    return None


def numa_nodes_are_numbers(nodes: Sequence[int] | None) -> Broken | None:
    if nodes is None or (nodes and min(nodes) >= 0):
        return None
    return Broken("numa_bind_nodes", nodes, "one or more numbers of nodes, from 0")


def numa_cpus_are_lists(case: Case) -> Broken | None:
    cpus = case.config.numa_bind_cpus
    if cpus is None or (cpus and all(map(_cpu_list, cpus))):
        return None
    return Broken("numa_bind_cpus", cpus, "one or more lists of CPUs, as in 0-3 or 0,2,4-7")


def _cpu_list(text: str) -> bool:
    if not CPU_LIST.fullmatch(text):
        return False
    ranges = [[int(end) for end in part.split("-")] for part in text.split(",")]
    return all(one[0] <= one[-1] for one in ranges)


CHANGED: dict[Rule, Rule] = {
    rules.eplb_on_its_platforms: eplb_on_its_platforms,
    rules.eplb_needs_ranks: eplb_needs_ranks,
}

OF_ONE_FIELD: dict[str, OfOneField] = {
    "data_parallel_rank": data_parallel_rank_from_0,
    "eplb_config": eplb_counts_are_positive,
    "numa_bind_nodes": numa_nodes_are_numbers,
}
"""Rules about one field that the release checks together with the types of all fields, before any other rule.

So one error names a negative rank and a wrong word in another field together.
"""

ELSEWHERE = (rules.known_all2all_backend_around,)
"""Rules of source 003 that release 0.33 does not have: no environment variable overrides the field."""

RELEASE_033: tuple[Rule, ...] = (
    *(CHANGED.get(rule, rule) for rule in rules.SOURCE_003 if rule not in ELSEWHERE),
    rpc_port_is_a_port,
    async_eplb_has_no_nccl,
    thresholds_fill_all_microbatches,
    decode_context_groups_fit,
    decode_exchange_needs_context_parallelism,
    elastic_ep_needs_eplb,
    elastic_ep_has_one_stage,
    elastic_ep_has_no_hybrid_balancer,
    elastic_ep_moves_experts_over_nixl,
    elastic_ep_has_room,
    fault_tolerance_has_one_server,
    numa_lists_need_binding,
    numa_cpus_are_lists,
)
