"""Tests the scenario of a command: sizes, settings, derived values and remarks; and the documented table of flags."""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.scenario import parse_scenario
from dpsim.scenario.model import Scenario
from dpsim.scenario.to_world import prepare
from dpsim.vllm.from_vllm.flags import FLAGS
from dpsim.vllm.from_vllm.nested import KEYS
from dpsim.vllm.from_vllm.translate import from_vllm
from tests import ROOT


def scenario(flags: str, release: str | None = None) -> Scenario:
    return from_vllm(f"vllm serve org/model-1 {flags}", release).scenario


def test_sizes_name_and_protocol() -> None:
    found = scenario("-dp 2 -tp 4 -dcp 2")
    assert (found.name, found.protocol.name, found.topology.world_size) == ("model-1", "dp_batch", 8)
    assert found.topology.decode_context_parallel_size == 2
    assert scenario("-pp 2").protocol.name == "pp_tokens"
    assert scenario("-dp 2", "0.33").protocol.form == "0.33"
    assert scenario("-dp 2", "0.33").config.parallel_rules == "0.33"
    assert from_vllm("vllm serve '$MODEL'").scenario.name == "MODEL"
    assert from_vllm("vllm serve").scenario.name == "vllm-serve"


@pytest.mark.parametrize(
    ("flags", "config"),
    [
        ("", {"async_scheduling": True}),
        ("--no-async-scheduling", {"async_scheduling": False}),
        ("-pp 2", {"async_scheduling": False}),
        ("--distributed-executor-backend ray", {"async_scheduling": False}),
        ("--distributed-executor-backend own.Executor", {"async_scheduling": False}),
        ("-sc.method ngram -sc.num_speculative_tokens 2", {"async_scheduling": False, "speculative_method": "ngram"}),
        (
            "-sc.method qwen3_next_mtp -sc.num_speculative_tokens 2",
            {"async_scheduling": True, "speculative_method": "mtp"},
        ),
        (
            "-sc.model org/x-eagle3 -sc.num_speculative_tokens 2",
            {"num_speculative_tokens": 2, "speculative_method": "mtp"},
        ),
        ("-sc.method mtp -sc.num_speculative_tokens 2 -sc.max_model_len 99", {"speculative_max_model_len": 99}),
        ("-O0", {"cudagraph_mode": "NONE"}),
        ("-O1", {"cudagraph_mode": "PIECEWISE"}),
        ("-O2", {"cudagraph_mode": "FULL_AND_PIECEWISE"}),
        ("-cc.mode 0", {"cudagraph_mode": "NONE"}),
        ("-O0 -cc.cudagraph_mode full_decode_only", {"cudagraph_mode": "FULL_DECODE_ONLY"}),
        ("-cc.full_cuda_graph true", {"cudagraph_mode": "FULL"}),
        ("-cc.use_cudagraph false", {"cudagraph_mode": "NONE"}),
        ("-cc.pass_config.enable_sp true", {"enable_sp": True}),
        ("-cc '{\"cudagraph_capture_sizes\": [1, 8]}'", {"cudagraph_capture_sizes": (1, 8)}),
        ("-dp 2 --all2all-backend deepep_high_throughput", {"cudagraph_mode": "NONE"}),
        ("--all2all-backend deepep_high_throughput", {"cudagraph_mode": "FULL_AND_PIECEWISE"}),
        ("--max-num-batched-tokens 64", {"max_num_batched_tokens": 64, "max_num_seqs": 64}),
        ("--num-gpu-blocks-override 9", {"num_gpu_blocks_override": None}),
        ("-pp 2 --num-gpu-blocks-override 9", {"num_gpu_blocks_override": 9}),
        ("--enable-lora", {"enable_lora": True}),
        ("-dp 2 -ep --enable-eplb --eplb-window-size 7", {"enable_eplb": True, "enable_expert_parallel": True}),
    ],
)
def test_flags_give_the_settings_of_the_scenario(flags: str, config: dict[str, Any]) -> None:
    found = scenario(flags).config
    assert {name: getattr(found, name) for name in config} == config


def test_eplb_settings_by_either_name() -> None:
    both = [
        scenario(f"-dp 2 -ep --enable-eplb {flags}")
        for flags in ("--eplb-window-size 7", "--eplb-config.window_size 7")
    ]
    assert [found.config.eplb_config.window_size for found in both] == [7, 7]


@pytest.mark.parametrize("length", [1, 2, 7, 100, 5000])
@pytest.mark.parametrize("flags", ["", "--enable-dbo --all2all-backend deepep_low_latency"])
def test_no_request_is_longer_than_the_model_allows(length: int, flags: str) -> None:
    load = scenario(f"--max-model-len {length} {flags}").workload.synthetic
    assert load is not None
    assert load.prompt_tokens.max + load.output_tokens.max <= max(length, 2)


def test_a_large_deployment_has_a_small_workload() -> None:
    load = scenario("-dp 4096 --enable-dbo --all2all-backend deepep_low_latency").workload.synthetic
    assert load is not None
    assert load.requests <= 50_000


def test_remarks_name_omitted_flags_and_repeat_no_value() -> None:
    made = from_vllm("HF_TOKEN=secret1 vllm serve m -dp 2 --api-key secret2 --port 80 --dtype half --headless")
    assert "ignored: --api-key, --port: of the API server" in made.remarks
    assert any(line.startswith("ignored: HF_TOKEN: ") for line in made.remarks)
    assert any(line.startswith("checked, without further effect: --headless: ") for line in made.remarks)
    assert any("a mixture of experts" in line for line in made.remarks)
    assert not any("a mixture of experts" in line for line in from_vllm("vllm serve m -dp 2 -ep").remarks)
    head = [line for line in made.text().splitlines() if line.startswith("#")]
    assert head[1:] == [f"# {line}" for line in made.remarks]
    assert "secret" not in made.text()
    assert parse_scenario(made.text()) == made.scenario


def remarks(command: str) -> tuple[str, ...]:
    return from_vllm(command).remarks


def test_a_derived_setting_has_one_remark() -> None:
    said = [line for line in remarks("vllm serve m --max-num-batched-tokens 64") if "max_num_seqs" in line]
    assert said == ["taken as: max_num_seqs 64: the tokens of a step, which are fewer than dpsim's default 128"]


def test_adapters_are_not_lost_silently_in_a_pipeline() -> None:
    why = "ignored: --enable-lora: of adapters, which pp_tokens does not model"
    assert why in remarks("vllm serve m -pp 2 --enable-lora")
    assert why not in remarks("vllm serve m --enable-lora")


def test_a_flag_that_a_variable_overrides_has_a_remark() -> None:
    told = "taken as: VLLM_ALL2ALL_BACKEND naive: it overrides --all2all-backend pplx"
    command = "VLLM_ALL2ALL_BACKEND=naive vllm serve m -dp 2 --all2all-backend"
    assert told in from_vllm(f"{command} pplx", "0.14").remarks
    assert told not in from_vllm(f"{command} naive", "0.14").remarks


def test_nodes_that_name_different_models_have_a_remark() -> None:
    nodes = "vllm serve org/a -dp 4 -dpl 2\nvllm serve org/{} -dp 4 -dpl 2 -dpr 2 --headless"
    assert "taken as: one model on all nodes: the commands name org/a, org/b" in remarks(nodes.format("b"))
    assert not any("one model" in line for line in remarks(nodes.format("a")))


def test_the_document_has_every_flag() -> None:
    document = (ROOT / "docs" / "vllm-flags.md").read_text()
    assert all(f"`{' '.join(flag.names)}" in document for flag in FLAGS)
    assert all(f"`{key}`" in document for keys in KEYS.values() for key in keys)


@pytest.mark.parametrize("blocks", [1, 2, 9])
def test_requests_fit_into_the_blocks_that_are_given(blocks: int) -> None:
    """With few KV cache blocks, dpsim draws requests that fit, because a pipeline refuses a request that cannot fit."""
    prepare(scenario(f"-pp 2 --num-gpu-blocks-override {blocks}"))
