"""Compares dpsim's configuration with stored answers of vLLM's ParallelConfig in two releases: validity, values,
hashes.

All rows must be equal, without a departure. A form compared with the other release's rows differs in many, which shows
that the comparison can tell the releases apart.
"""

from __future__ import annotations

from collections import Counter

import pytest

from dpsim.vllm.config import ParallelConfig, ParallelConfig033
from dpsim_engine.comparison import Difference, Row, differing
from dpsim_engine.config import CONFIG, CONFIG_HASH, Form
from dpsim_engine.stored import answers
from tests.vllm.config.mutants import every_rule, without

RELEASED: dict[str, Form] = {"0.14.0": ParallelConfig, "0.33.0": ParallelConfig033}


def otherwise(rows: list[Row], form: Form) -> list[Difference]:
    return differing(CONFIG, rows, form) + differing(CONFIG_HASH, rows, form)


@pytest.mark.parametrize("release", RELEASED)
def test_every_row_of_a_release(release: str) -> None:
    rows = answers("config", release)
    kinds = Counter((row["kind"], row["answer"].get("accepted", row["answer"].get("hash_equal"))) for row in rows)
    assert len(rows) >= 470
    assert min(kinds.values()) >= 5
    assert otherwise(rows, RELEASED[release]) == []


def test_twin_the_configuration_of_another_release_answers_many_rows_differently() -> None:
    for release, other in (("0.14.0", ParallelConfig033), ("0.33.0", ParallelConfig)):
        assert len(otherwise(answers("config", release), other)) > 30


NOT_ASKED = {
    *("known_all2all_backend", "known_all2all_backend_around"),
    *("eplb_on_its_platforms", "async_eplb_has_one_policy", "launcher_says_the_rank"),
    "offline_data_parallelism_of_experts",
}
"""Rules that no stored row exercises: they concern other platforms or the environment, or a type enforces them already.
"""

NOT_ASKED_033 = {
    *(NOT_ASKED - {"known_all2all_backend", "known_all2all_backend_around"}),
    *("rpc_port_is_a_port", "async_eplb_has_no_nccl", "decode_exchange_needs_context_parallelism"),
    *("elastic_ep_has_no_hybrid_balancer", "elastic_ep_moves_experts_over_nixl", "elastic_ep_has_room"),
    *("fault_tolerance_has_one_server", "numa_cpus_are_lists"),
}


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASED)
def test_each_rule_is_needed(release: str) -> None:
    """Each rule refuses a row that vLLM refuses, so a form without that rule differs.

    `test_rules` tests the other rules.
    """
    form = RELEASED[release]
    refused = [row for row in answers("config", release) if not row["answer"].get("accepted", True)]
    missed = set()
    for rule in every_rule(form):
        if not differing(CONFIG, refused, without(form, rule)):
            missed.add(rule.__name__)
    assert missed == (NOT_ASKED if release == "0.14.0" else NOT_ASKED_033)


def test_blaming_one_field_of_a_message_about_several_is_enough() -> None:
    """If vLLM's message names several fields, dpsim has to blame one of them.

    In the faulty twin it blames another field.
    """
    head = "Value error, dbo_decode_token_threshold and dbo_prefill_token_threshold must be at least 2"
    answer = {"accepted": False, "raises": "ValidationError", "message": head, "fields": [""]}
    fields = {"data_parallel_size": 2, "enable_dbo": True, "dbo_prefill_token_threshold": 1}
    row = {"version": "0.33.0", "kind": "one", "case": 0, "fields": fields, "answer": answer}
    assert differing(CONFIG, [row], RELEASED["0.33.0"]) == []
    other = {**row, "fields": {"data_parallel_size": 2, "data_parallel_size_local": 3}}
    assert len(differing(CONFIG, [other], RELEASED["0.33.0"])) == 1
