"""Tests the documented command lines: each gives its stored scenario, which holds.

With a known bug planted, the scenario is violated.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from dpsim import runner
from dpsim.scenario import Scenario, load_scenario, scenario_from
from tests.vllm.from_vllm.examples import NAMES, command, translated, written

PIPELINES = [name for name in NAMES if "pipeline_parallel_size" in written(name).read_text()]
REPLICAS = [name for name in NAMES if "data_parallel_size" in written(name).read_text()]
LARGE = ("kimi-k2-pipeline", "pp-ray", "pp-two-nodes")


def quick(names: list[str]) -> list[Any]:
    """Returns pytest parameters for the names, and marks large pipelines as slow."""
    return [pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name for name in names]


def with_variant(scenario: Scenario, variant: str) -> Scenario:
    return scenario_from({**dict(scenario), "protocol": {"name": scenario.protocol.name, "variant": variant}})


def test_there_are_many_and_each_says_where_it_is_documented() -> None:
    assert len(NAMES) >= 30
    for name in NAMES:
        first = command(name).partition("\n")[0]
        assert re.match(r"# vLLM (documentation|recipes|pull request)[ ,]", first), name


@pytest.mark.parametrize("name", NAMES)
def test_the_scenario_is_that_of_the_command(name: str) -> None:
    made = translated(name)
    assert written(name).read_text() == made.text(), "run python -m tests.vllm.from_vllm.examples"
    assert load_scenario(written(name)) == made.scenario


def test_another_command_gives_another_scenario() -> None:
    texts = {translated(name).text() for name in ("dp-with-tp", "dp-two-nodes", "dp-ray", "dp-external")}
    assert len(texts) == 4


@pytest.mark.parametrize("name", quick(NAMES))
def test_each_example_holds(name: str) -> None:
    result = runner.run_scenario(load_scenario(written(name)))
    assert (result.verdict, result.unmet) == ("held", None)


@pytest.mark.parametrize("name", REPLICAS)
def test_the_workload_of_each_example_has_prompts_decodes_and_idle_ranks(name: str) -> None:
    """The workload of each example has prompts without a graph, decodes with FULL graphs, and idle ranks.

    Mutant M-DP-1, an idle rank that leaves out the agreement, breaks each example. That proves that it has idle ranks.
    """
    scenario = load_scenario(written(name))
    figures = runner.run_scenario(scenario).figures
    eager = scenario.config.enforce_eager
    assert eager or figures["steps by graph mode"]["FULL"], "decodes have full graphs"
    assert figures["steps by graph mode"]["NONE"], "long prompts have none"
    if scenario.protocol.resolved_form == "source-000":
        assert runner.run_scenario(with_variant(scenario, "M-DP-1")).verdict == "violated"


def test_batches_are_cut_in_two() -> None:
    """With `--enable-dbo`, ranks split both prompts and decodes into microbatches.

    The example `dbo-nixl` has one replica, which agrees with no other rank, so it splits no step.
    """
    figures = {name: runner.run_scenario(load_scenario(written(name))).figures for name in ("dbo", "dbo-nixl")}
    assert figures["dbo"]["microbatched steps"] >= 2
    assert figures["dbo-nixl"]["microbatched steps"] == 0


@pytest.mark.parametrize("variant", ["M-PP-2", pytest.param("M-PS-5", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", quick(PIPELINES))
def test_each_pipeline_example_finds_lost_tokens_and_tensors(name: str, variant: str) -> None:
    assert runner.run_scenario(with_variant(load_scenario(written(name)), variant)).verdict == "violated"
