"""Tests each rule of spec chapter 8.2 with two configurations: one meets the rule, and one breaks only that rule.

The two configurations differ in as few fields as possible. A test fails if a form loses a rule or blames another field,
or if no row of the tables exercises a rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from dpsim.vllm.config import (
    FORMS,
    EngineConfig,
    ExactNodes,
    ParallelConfig,
    ParallelConfig033,
    PartialConfig,
)
from dpsim.vllm.config import rules as old
from dpsim.vllm.config import rules_033 as new
from dpsim.vllm.config.fields import EPLBConfig
from dpsim.vllm.config.forms import broken_in
from dpsim.vllm.config.rules import Case
from dpsim.vllm.config.values import ParallelValues
from tests.vllm.config.mutants import every_rule, without
from tests.vllm.config.rule_rows import CUDA, TABLES, Row

Fields = Mapping[str, Any]

ROWS = [
    pytest.param(FORMS[name], row, id=f"{name}-{row.rule.__name__}") for name, rows in TABLES.items() for row in rows
]


@pytest.mark.parametrize(("form", "row"), ROWS)
def test_each_rule_has_a_configuration_that_meets_it_and_one_that_breaks_only_it(
    form: type[ParallelConfig], row: Row
) -> None:
    assert row.rule in every_rule(form)
    form.model_validate(row.meets, context=row.around)
    fields = {**row.meets, **row.breaks}
    with pytest.raises(ValidationError) as caught:
        form.model_validate(fields, context=row.breaks_in or row.around)
    found = broken_in(caught.value)
    assert [one.field for one in found] == [row.blames]
    (value,) = [one.value for one in found if one.field == row.blames][:1]
    for word in (row.blames, repr(value), "expected"):
        assert word in str(caught.value), "a message names field, value and rule"
    weaker = without(form, row.rule)
    weaker.model_validate(fields, context=row.breaks_in or row.around)


@pytest.mark.parametrize("name", FORMS)
def test_the_table_asks_for_every_rule(name: str) -> None:
    asked = {row.rule for row in TABLES[name]} | {old.async_eplb_has_one_policy}  # the type allows one policy only
    assert asked == set(every_rule(FORMS[name]))
    eplb = EPLBConfig.model_construct(policy="mine", use_async=True)
    broken = old.async_eplb_has_one_policy(Case.of(ParallelValues.model_construct(eplb_config=eplb)))
    assert broken is not None
    assert str(broken).startswith("eplb_config.policy: 'mine'; expected 'default'")
    healthy = EPLBConfig.model_construct(policy="mine", use_async=False)
    assert old.async_eplb_has_one_policy(Case.of(ParallelValues.model_construct(eplb_config=healthy))) is None


def test_release_014_accepts_configurations_that_033_refuses() -> None:
    """Source page 003, which release 0.14 contains, accepts configurations that newer rules of release 0.33 refuse."""
    for fields in (
        {"enable_dbo": True, "dbo_decode_token_threshold": 1},
        {"tensor_parallel_size": 4, "decode_context_parallel_size": 3},
        {"data_parallel_rank": -1},
        {"data_parallel_rpc_port": 0},
        {"eplb_config": {"window_size": 0}},
    ):
        ParallelConfig.model_validate(fields)
        with pytest.raises(ValidationError):
            ParallelConfig033.model_validate(fields)


def test_types_refuse_values_that_no_release_takes() -> None:
    for fields in (
        {"tensor_parallel_size": 0},
        {"data_parallel_size_local": -1},
        {"nnodes": 0},
        {"_api_process_count": 0},
        {"_api_process_rank": -2},
        {"eplb_config": {"num_redundant_experts": -1}},
        {"all2all_backend": "bogus"},
        {"data_parallel_backend": "tcp"},
        {"expert_placement_strategy": "zigzag"},
        {"enable_elastic_ep": True},
        {"no_such_field": 1},
    ):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            ParallelConfig.model_validate(fields)


def test_all_broken_rules_are_named_at_once() -> None:
    with pytest.raises(ValidationError) as caught:
        ParallelConfig.model_validate({"data_parallel_size_local": 2, "_api_process_rank": 1, "enable_eplb": True})
    fields = {found.field for found in broken_in(caught.value)}
    assert fields == {"data_parallel_size_local", "_api_process_rank", "enable_expert_parallel", "enable_eplb"}


def test_the_healthy_twin_refuses_what_source_003_miscounts() -> None:
    """Mutant M-CF-11: source page 003 rounds nodes down to 0, and divides by zero later.

    `ExactNodes` refuses such fields.
    """
    for fields in (
        {"nnodes": 2, "data_parallel_size": 16},
        {"nnodes": 4, "data_parallel_size": 2, "data_parallel_size_local": 0},
    ):
        config = ParallelConfig.model_validate(fields)
        with pytest.raises(ZeroDivisionError):
            _ = config.local_world_size
        with pytest.raises(ValidationError, match="expected"):
            ExactNodes.model_validate(fields)
    assert ParallelConfig(nnodes=2, data_parallel_size=16).nnodes_within_dp == 0
    with pytest.raises(ValueError, match="nnodes: 2; expected a multiple of 16"):
        _ = ParallelConfig033(nnodes=2, data_parallel_size=16).nnodes_within_dp
    external = ParallelConfig033(nnodes=2, data_parallel_size=16, data_parallel_external_lb=True)
    assert external.nnodes_within_dp == 1


@pytest.mark.parametrize("model", [EngineConfig, PartialConfig])
def test_scalars_are_strict(model: type[EngineConfig]) -> None:
    """A flag accepts only a boolean, and a number only an integer: not a boolean, a word or a fraction."""
    wrong = {bool: ("yes", 1), int: (True, "1", 1.0)}
    for name, field in model.model_fields.items():
        for kind, values in wrong.items():
            if type(field.default) is kind or field.annotation == kind | None:
                for value in values:
                    with pytest.raises(ValidationError, match=r"valid (boolean|integer)"):
                        model.model_validate({field.alias or name: value})
    for value in (True, "1", 1.0):
        with pytest.raises(ValidationError):
            model.model_validate({"cudagraph_capture_sizes": [value]})


@pytest.mark.parametrize(
    ("name", "value"),
    [("data_parallel_rank", -1), ("numa_bind_nodes", (-1,)), ("eplb_config", {"log_balancedness_interval": 0})],
)
def test_0_33_names_a_rule_of_one_field_beside_a_wrong_word(name: str, value: Any) -> None:
    """Release 0.33 reports a broken rule of one field together with a wrong value of another field.

    A form without the rule reports the wrong value only.
    """
    form = FORMS["0.33"]
    fields = {name: value, "expert_placement_strategy": "zigzag"}

    def named(one: Any) -> set[str]:
        with pytest.raises(ValidationError) as caught:
            one.model_validate(fields, context=CUDA)
        return {broken.field.partition(".")[0] for broken in broken_in(caught.value)}

    assert named(form) == {name, "expert_placement_strategy"}
    assert named(without(form, new.OF_ONE_FIELD[name])) == {"expert_placement_strategy"}
