"""Tests that dpsim refuses what vLLM refuses, and names the rule. For each rule, a similar command is valid."""

from __future__ import annotations

import pytest

from dpsim.scenario import ScenarioError
from dpsim.vllm.from_vllm.read import read
from dpsim.vllm.from_vllm.rules import RULES, problems
from dpsim.vllm.from_vllm.shell import commands
from dpsim.vllm.from_vllm.translate import from_vllm

DBO = "-dp 2 --enable-dbo --all2all-backend"
OUR_RULES = [  # a command that breaks the rule, and its healthy twin
    ("-dp 2 --data-parallel-rank 0 -dpl 2", "-dp 2 --data-parallel-rank 0 -dpl 1"),
    ("-dp 4 -dpr 3 -dpl 2 --headless", "-dp 4 -dpr 2 -dpl 2 --headless"),
    ("-dp 4 -dpl 2 -dpr 2 -dph --headless", "-dp 4 -dpl 2 -dpr 2 -dph"),
    ("--distributed-executor-backend rya", "--distributed-executor-backend ray"),
    ("--nnodes 2 --node-rank 2", "--nnodes 2 --node-rank 1"),
    ("-dp 4 -dpl 2 --nnodes 3", "-dp 4 -dpl 2 --nnodes 4"),
    (f"{DBO} naive", f"{DBO} deepep_low_latency"),
    ("--async-scheduling --distributed-executor-backend ray", "--async-scheduling --distributed-executor-backend mp"),
    (
        "--async-scheduling -sc.method suffix -sc.num_speculative_tokens 2",
        "--async-scheduling -sc.method ngram_gpu -sc.num_speculative_tokens 2",
    ),
    (
        "--async-scheduling --speculative-config.disable_padded_drafter_batch true",
        "--no-async-scheduling --speculative-config.disable_padded_drafter_batch true",
    ),
]
"""One pair for each rule, in the order of `RULES`."""

PARALLEL_RULES = [
    ("-dp 2 -dpl 3", "-dp 2 -dpl 2", "-dpl: 3; expected at most data_parallel_size, 2"),
    ("-dp 2 -dpn 2", "-dp 2 -dpn 1", "-dpn: 2; expected 0 to 1"),
    ("-dpn 0", "-dp 2 -dpn 0", "--data-parallel-external-lb: True; expected False, as data_parallel_size is 1"),
    ("-dp 2 --enable-eplb", "-dp 2 --enable-eplb -ep", "--enable-expert-parallel: False; expected True"),
    (
        "--enable-eplb -ep",
        "-tp 2 --enable-eplb -ep",
        "--enable-eplb: True; expected False, as tensor, prefill context and data parallel",
    ),
    (
        "-dp 2 -ep --num-redundant-experts 2",
        "-dp 2 -ep --num-redundant-experts 2 --enable-eplb",
        "--num-redundant-experts: 2; expected 0, as enable_eplb is False",
    ),
    (
        "-tp 8 -pp 2 --nnodes 2 --distributed-executor-backend ray",
        "-tp 8 -pp 2 --nnodes 2 --distributed-executor-backend mp",
        "--distributed-executor-backend: ray; expected mp, uni or external_launcher",
    ),
    (
        "--ray-workers-use-nsight",
        "--ray-workers-use-nsight --distributed-executor-backend ray",
        "--ray-workers-use-nsight: ",
    ),
]


def refusal(flags: str, release: str | None = None) -> str:
    try:
        from_vllm(f"vllm serve m {flags}", release)
    except ScenarioError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("number", range(len(RULES)), ids=[rule.says for rule in RULES])
def test_each_rule_is_broken_and_kept(number: int) -> None:
    broken, kept = OUR_RULES[number]
    (found,) = problems(read(commands(f"vllm serve m {broken}")[0]))
    assert found.startswith(f"vLLM refuses this (rule of {RULES[number].owner}: {RULES[number].says}): ")
    assert problems(read(commands(f"vllm serve m {kept}")[0])) == []


@pytest.mark.parametrize(("broken", "kept", "says"), PARALLEL_RULES, ids=[rule[0] for rule in PARALLEL_RULES])
def test_rules_of_the_parallel_configuration(broken: str, kept: str, says: str) -> None:
    told = refusal(broken)
    assert told.startswith("vLLM refuses this (rule of ParallelConfig, 0.33): ")
    assert says.replace("ray;", "'ray';") in told
    assert "\n" not in told
    assert refusal(kept) == ""


def test_each_release_applies_its_own_rules() -> None:
    flags = "-dp 2 --enable-dbo --all2all-backend nixl_ep --dbo-decode-token-threshold 1"
    assert "expected one of naive, pplx" in refusal(flags, "0.14")
    assert "expected at least 2, the number of microbatches" in refusal(flags, "0.33")
    assert refusal(flags.replace("threshold 1", "threshold 2"), "0.33") == ""


def test_piecewise_graphs_need_the_compiler() -> None:
    graphs = "--compilation-config.cudagraph_mode PIECEWISE --compilation-config.mode"
    assert "PIECEWISE graphs need compilation mode VLLM_COMPILE" in refusal(f"{graphs} 0")
    assert refusal(f"{graphs} VLLM_COMPILE") == ""


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("-pcp 2", "-pcp: dpsim has no ranks of context parallelism; expected 1"),
        ("-pp 8", "topology: expected pipelines of 1 to 4 stages"),
        (
            "-pp 2 --enable-dbo --all2all-backend deepep_low_latency",
            "--enable-dbo with -pp 2: pp_tokens has no microbatches",
        ),
        ("--runner pooling", "--runner pooling: such a model generates no tokens"),
        ("--optimization-level 4", "--optimization-level: expected a level from 0 to 3, got 4"),
        ("-cc.cudagraph_mode FULLL", "cudagraph_mode: unknown value 'FULLL'"),
        ("-cc.mode fast", "compilation mode: unknown value 'fast'"),
        ("--speculative-config.method mtp", "--speculative-config has no num_speculative_tokens"),
        ("-sc.num_speculative_tokens 2", "--speculative-config has no method"),
        ("-sc.method egale -sc.num_speculative_tokens 2", "--speculative-config: unknown method 'egale'"),
        (
            "-sc.method mtp -sc.num_speculative_tokens x",
            "--speculative-config: num_speculative_tokens: expected a whole",
        ),
        ("-dp 5000", "-dp: 5000 is too large; expected at most 4096"),
        ("-tp 8 -dcp 3", "-dcp: decode_context_parallel_size 3: a stage of 8"),
        ("--block-size x", "--block-size: expected a whole number, got 'x'"),
        ("--max-model-len 1.5K", "--max-model-len: vLLM takes no part of a K, got '1.5K'; did you mean 1.5k?"),
        (
            "\u2014enable-dbo",
            "'\u2014enable-dbo' belongs to no flag, and the model is 'm'; expected one model; a flag begins",
        ),
        (
            "--async-scheduling --distributed-executor-backend own.Executor",
            "vLLM refuses this (rule of VllmConfig: asynchronous scheduling needs the executor",
        ),
        ("--performance-mode throughput", "--performance-mode: unknown value 'throughput'"),
    ],
)
def test_a_flag_that_dpsim_cannot_run_is_named(flags: str, says: str) -> None:
    assert refusal(flags).startswith(says)


def test_an_unknown_release_lists_the_known_ones() -> None:
    said = "--release: dp_batch has no form '0.34'; expected one of source-000, 0.14, 0.33; did you mean '0.14'?"
    assert refusal("-dp 2", "0.34").startswith(said.partition(";")[0])
