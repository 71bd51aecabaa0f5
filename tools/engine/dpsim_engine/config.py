"""Compares parallel configurations: validity, derived values, and equal hashes (specification 8.1 to 8.4).

VLLM reports the first broken rule, and dpsim reports all broken rules. So two refusals are equal if dpsim's names the
fields that vLLM's names, and perhaps others. The comparison does not read hash values, because vLLM's hash depends on
the process. It compares whether two hashes are equal, and whether dpsim finds a differing field.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import ValidationError

from dpsim.vllm.config import ParallelConfig, Surroundings, compute_hash, differing
from dpsim.vllm.config.forms import broken_in
from dpsim.vllm.releases import V0_14, V0_33
from dpsim_engine.comparison import Comparison, Row, ours_of

AROUND = Surroundings(devices=8, environ={"RANK": "3"})
"""The surroundings of the stored rows: a CUDA platform, 8 GPUs in a node, no Ray, no NIXL."""

HEADS = {
    r"enable_expert_parallel must be True": "enable_expert_parallel",
    r"data_parallel_external_lb can only": "data_parallel_external_lb",
    r"Unable to use nsight": "ray_workers_use_nsight",
    r"Failed to import Ray": "distributed_executor_backend",
    r"Elastic EP with async EPLB": "eplb_config.use_async",
    r"Elastic EP": "enable_elastic_ep",
    r"When PCP is enabled": "decode_context_parallel_size",
    r"data_parallel_size_local \(": "data_parallel_size_local",
    r"EPLB requires": "enable_eplb",
    r"num_redundant_experts is set": "eplb_config.num_redundant_experts",
    r"World size \(\d+\) is larger": "distributed_executor_backend",
    r"numa_bind_nodes and numa_bind_cpus require": "numa_bind_nodes",
    r"numa_bind_nodes must": "numa_bind_nodes",
    r"nnodes > 1 can only": "distributed_executor_backend",
    r"Invalid value of `_api_process_rank`": "_api_process_rank",
    r"data_parallel_rank \(": "data_parallel_rank",
    r"log_balancedness_interval must": "eplb_config.log_balancedness_interval",
    r"dbo_decode_token_threshold and": "dbo_decode_token_threshold dbo_prefill_token_threshold",
    r"tp_size=": "decode_context_parallel_size",
}
"""The field that vLLM blames, by the begin of its message. Of several fields, at least one is wrong."""

Form = type[ParallelConfig]


def _made(form: Form, fields: Row) -> ParallelConfig | ValidationError:
    try:
        return form.model_validate(fields, context=AROUND)
    except ValidationError as error:
        return error


def _derived(config: ParallelConfig, name: str) -> Any:
    try:
        return getattr(config, name)
    except (ValueError, ZeroDivisionError) as error:
        return {"raises": type(error).__name__}


def blamed(answer: Row) -> set[str]:
    """Returns the fields that a refusal of vLLM blames; of a dotted name, only the last part."""
    head = answer["message"].removeprefix("Value error, ")
    of_head = next((names for pattern, names in HEADS.items() if re.match(pattern, head)), None)
    found = answer["fields"] if of_head is None else of_head.split()
    return {name.rpartition(".")[2] for name in found}


def named_together(answer: Row) -> bool:
    """Returns whether one message of vLLM concerns several fields. Then dpsim needs to blame only one of them."""
    return len(answer["fields"]) == 1 and len(blamed(answer)) > 1


def _theirs(answer: Row) -> Row:
    """Returns vLLM's answer for one configuration."""
    if answer["accepted"]:
        return {"accepted": True, "derived": answer["derived"]}
    return {"accepted": False, "blamed": sorted(blamed(answer))}


def _ours(form: Form, fields: Row, answer: Row) -> Row:
    """Returns dpsim's answer: the derived values that vLLM's answer names, or the blamed fields.

    If both sides blame some fields, the answer contains only those fields.
    """
    config = _made(form, fields)
    if isinstance(config, ValidationError):
        found = {broken.field.rpartition(".")[2] for broken in broken_in(config)}
        theirs = set() if answer["accepted"] else blamed(answer)
        if theirs & found and named_together(answer):
            return {"accepted": False, "blamed": sorted(theirs)}
        return {"accepted": False, "blamed": sorted(theirs & found or found)}
    return {"accepted": True, "derived": {name: _derived(config, name) for name in answer.get("derived", ())}}


# ---- one configuration


CONFIG: Comparison[Form] = Comparison(
    "config",
    "config",
    "vllm.config.parallel.ParallelConfig",
    ours_of(lambda release: release.config, V0_14, V0_33),
    lambda row, form: _ours(form, row["fields"], row["answer"]),
    lambda row: _theirs(row["answer"]),
    applies=lambda row: row["kind"] == "one",
    piece=lambda release: release.config,
)

# ---- two configurations, and whether their hashes are equal

BOTH = ("first", "second")


def _pair(row: Row, form: Form) -> Row:
    answer = row["answer"]
    if "hash_equal" not in answer:
        return {which: _ours(form, row[which], answer[which]) for which in BOTH}
    first, second = (_made(form, row[which]) for which in BOTH)
    if isinstance(first, ValidationError) or isinstance(second, ValidationError):
        return {"accepted": False}
    return {
        "hash_equal": compute_hash(first) == compute_hash(second),
        "a field differs": bool(differing(first, second)),
    }


def _theirs_of_pair(row: Row) -> Row:
    answer = row["answer"]
    if "hash_equal" not in answer:
        return {which: _theirs(answer[which]) for which in BOTH}
    return {"hash_equal": answer["hash_equal"], "a field differs": not answer["hash_equal"]}


CONFIG_HASH: Comparison[Form] = Comparison(
    "config_hash",
    "config",
    "vllm.config.parallel.ParallelConfig.compute_hash",
    ours_of(lambda release: release.config, V0_14, V0_33),
    _pair,
    _theirs_of_pair,
    applies=lambda row: row["kind"] == "pair",
    piece=lambda release: release.config,
)
