"""What the engine's own ParallelConfig answered, row by row, in two releases: accepted or refused, values, hashes.

No row is left out, and there is no departure: DEPARTURES is empty. Comparing with the other release's form finds rows
that differ, so the comparison can tell them apart.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from pydantic import ValidationError

from dpsim.config import ParallelConfig, ParallelConfig033, Surroundings, compute_hash, differing
from dpsim.config.forms import broken_in
from tests.engine import answers

Row = dict[str, Any]

RELEASED: dict[str, type[ParallelConfig]] = {"0.14.0": ParallelConfig, "0.33.0": ParallelConfig033}
AROUND = Surroundings(devices=8, environ={"RANK": "3"})
"""The stand-ins of the rows: a CUDA platform, 8 GPUs in a node, no Ray, no NIXL."""

DEPARTURES: dict[tuple[str, str, int], str] = {}
"""(release, kind, case) of rows that are answered otherwise here, and why."""

FIELDS = {
    r"enable_expert_parallel must be True": "enable_expert_parallel",
    r"data_parallel_external_lb can only": "data_parallel_external_lb",
    r"Unable to use nsight": "ray_workers_use_nsight",
    r"Failed to import Ray": "distributed_executor_backend",
    r"Elastic EP": "enable_elastic_ep",
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
    r"dbo_decode_token_threshold and": "dbo_decode_token_threshold",
    r"tp_size=": "decode_context_parallel_size",
}
"""Which field is to blame, by the head of the engine's message."""


def made(form: type[ParallelConfig], fields: Row) -> ParallelConfig | ValidationError:
    try:
        return form.model_validate(fields, context=AROUND)
    except ValidationError as error:
        return error


def derived(config: ParallelConfig, name: str) -> Any:
    try:
        return getattr(config, name)
    except (ValueError, ZeroDivisionError) as error:
        return {"raises": type(error).__name__}


def blamed(answer: Row) -> set[str]:
    """Fields that the engine blames, the last part of their names."""
    heads = answer["message"].removeprefix("Value error, ")
    found = {name for pattern, name in FIELDS.items() if re.match(pattern, heads)} or set(answer["fields"])
    return {name.rpartition(".")[2] for name in found}


def same(form: type[ParallelConfig], fields: Row, answer: Row) -> bool:
    """Whether a form answers as the engine did."""
    config = made(form, fields)
    if isinstance(config, ValidationError):
        ours = {found.field.rpartition(".")[2] for found in broken_in(config)}
        return not answer["accepted"] and blamed(answer) <= ours
    if not answer["accepted"]:
        return False
    told = {name: {"raises": v["raises"]} if isinstance(v, dict) else v for name, v in answer["derived"].items()}
    return told == {name: derived(config, name) for name in told}


def as_answered(row: Row, form: type[ParallelConfig]) -> bool:
    answer = row["answer"]
    if row["kind"] == "one":
        return same(form, row["fields"], answer)
    if "hash_equal" not in answer:
        return all(same(form, row[which], answer[which]) for which in ("first", "second"))
    first, second = made(form, row["first"]), made(form, row["second"])
    if isinstance(first, ValidationError) or isinstance(second, ValidationError):
        return False
    equal: bool = answer["hash_equal"]
    return (compute_hash(first) == compute_hash(second)) is equal and (not differing(first, second)) is equal


@pytest.mark.parametrize("release", RELEASED)
def test_every_row_of_a_release(release: str) -> None:
    rows = answers("config", release)
    kinds = Counter((row["kind"], row["answer"].get("accepted", row["answer"].get("hash_equal"))) for row in rows)
    assert len(rows) >= 470
    assert min(kinds.values()) >= 5
    for row in rows:
        departs = (row["version"], row["kind"], row["case"]) in DEPARTURES
        assert as_answered(row, RELEASED[release]) is not departs, row


def test_the_other_release_answers_many_rows_otherwise() -> None:
    for release, other in (("0.14.0", ParallelConfig033), ("0.33.0", ParallelConfig)):
        assert sum(not as_answered(row, other) for row in answers("config", release)) > 30


NOT_ASKED = {
    *("known_all2all_backend", "eplb_on_its_platforms", "async_eplb_has_one_policy", "launcher_says_the_rank"),
    "offline_data_parallelism_of_experts",
}
"""Rules that no row asks for: other platforms, the environment, and what a type refuses already."""

NOT_ASKED_033 = {
    *(NOT_ASKED - {"known_all2all_backend"}),
    *("rpc_port_is_a_port", "async_eplb_has_no_nccl", "decode_exchange_needs_context_parallelism"),
    *("elastic_ep_has_no_hybrid_balancer", "elastic_ep_moves_experts_over_nixl", "elastic_ep_has_room"),
    *("fault_tolerance_has_one_server", "numa_nodes_are_numbers", "numa_cpus_are_lists"),
}


@pytest.mark.parametrize("release", RELEASED)
def test_each_rule_is_needed(release: str) -> None:
    """Without it the form accepts a row that the engine refused. `test_rules` has the others."""
    form = RELEASED[release]
    refused = [row for row in answers("config", release) if not row["answer"].get("accepted", True)]
    missed = set()
    for rule in form.rules:
        weaker = type("Weaker", (form,), {"rules": tuple(one for one in form.rules if one is not rule)})
        if all(as_answered(row, weaker) for row in refused):
            missed.add(rule.__name__)
    assert missed == (NOT_ASKED if release == "0.14.0" else NOT_ASKED_033)
