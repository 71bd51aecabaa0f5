"""Tests how dpsim reads flags and values: it accepts each spelling that vLLM accepts, and errors name other words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from dpsim.scenario import ScenarioError, parse_scenario
from dpsim.vllm.from_vllm.flags import FLAGS, flag_of
from dpsim.vllm.from_vllm.read import Settings, read
from dpsim.vllm.from_vllm.shell import commands
from dpsim.vllm.from_vllm.translate import from_vllm
from tests.properties import breaks, examples, holds


def settings(flags: str) -> Settings:
    (words,) = commands(f"vllm serve m {flags}")
    return read(words)


SIZES = "compilation_config.cudagraph_capture_sizes"


@pytest.mark.parametrize(
    ("flags", "values"),
    [
        ("--data-parallel-size 4", {"data_parallel_size": 4}),
        ("--data-parallel-size=4", {"data_parallel_size": 4}),
        ("--data_parallel_size 4", {"data_parallel_size": 4}),
        ("-dp 4", {"data_parallel_size": 4}),
        ("-dp=4 -dp 4", {"data_parallel_size": 4}),
        ("--enable-dbo", {"enable_dbo": True}),
        ("--no-enable-dbo", {"enable_dbo": False}),
        ("--no_async_scheduling", {"async_scheduling": False}),
        ("-ep", {"enable_expert_parallel": True}),
        ("--max-num-batched-tokens 8k", {"max_num_batched_tokens": 8000}),
        ("--max-num-batched-tokens 1.5k", {"max_num_batched_tokens": 1500}),
        ("--max-model-len auto", {"max_model_len": None}),
        ("--cudagraph-capture-sizes 1 2 4 --enable-dbo", {"cudagraph_capture_sizes": (1, 2, 4), "enable_dbo": True}),
        ("--cuda-graph-sizes 1 256", {"cudagraph_capture_sizes": (1, 256)}),
        ("-O3", {"optimization_level": 3}),
        ("-O 3", {"optimization_level": 3}),
        ("-O.cudagraph_mode=FULL", {"compilation_config.cudagraph_mode": "FULL"}),
        ("""-cc '{"cudagraph_mode": "FULL"}'""", {"compilation_config.cudagraph_mode": "FULL"}),
        ("--compilation_config.cudagraph_mode FULL", {"compilation_config.cudagraph_mode": "FULL"}),
        ("-cc.pass_config.enable_sp True", {"compilation_config.pass_config.enable_sp": True}),
        ("""-cc '{"pass_config": {"enable_sp": true}}'""", {"compilation_config.pass_config.enable_sp": True}),
        ("-cc.cudagraph_capture_sizes+ 1 -cc.cudagraph_capture_sizes+=2,4", {SIZES: [1, 2, 4]}),
        ("""-cc '{"cudagraph_capture_sizes": [8]}' -cc.cudagraph_capture_sizes+ 16""", {SIZES: [8, 16]}),
        ("--eplb-config.window_size 10", {"eplb_config.window_size": 10}),
        ("--eplb-config.log_balancedness true", {"eplb_config.log_balancedness": True}),
        ("--hf-token --enable-dbo", {"enable_dbo": True}),  # the value is optional
        ("--api-key a b --enable-dbo", {"enable_dbo": True}),
        ("--kv-transfer-config.kv_role kv_both --enable-dbo", {"enable_dbo": True}),
    ],
)
def test_every_spelling_of_a_flag_gives_its_value(flags: str, values: dict[str, Any]) -> None:
    assert settings(flags).values == values


@pytest.mark.parametrize(
    ("command", "model"),
    [
        ("vllm serve m -dp 2", "m"),
        ("vllm serve -dp 2 m", "m"),
        ("vllm serve --model m", "m"),
        ("python -m vllm.entrypoints.openai.api_server --model m", "m"),
        ("python3.12 -m vllm.entrypoints.openai.api_server --model=m", "m"),
        ("A=1 env B=2 nohup /opt/bin/vllm serve m", "m"),
        ("uv run vllm serve m", "m"),
        ("vllm serve -O2", ""),
    ],
)
def test_every_way_to_serve(command: str, model: str) -> None:
    (words,) = commands(command)
    assert read(words).model == model


REFUSED = {
    "--max-num-seq 4": "unknown flag --max-num-seq; did you mean '--max-num-seqs'?",
    "--enable-dboo": "unknown flag --enable-dboo; did you mean '--enable-dbo'?",
    "--no-data-parallel-size": "unknown flag --no-data-parallel-size; did you mean '--data-parallel-size'?",
    "-tpp 4": "unknown flag -tpp; did you mean '-tp'?",
    "-dp": "-dp has no value; expected -dp N",
    "-dp --enable-dbo": "-dp has no value; expected -dp N",
    "-dp two": "-dp: expected a whole number, got 'two'",
    "-dp 2.5": "-dp: expected a whole number, got '2.5'",
    "-dp $DP": "-dp: expected a whole number, got '$DP'; write what the variable stands for",
    "--max-num-seqs many": "--max-num-seqs: expected a whole number, or one such as 8k, got 'many'",
    "--max-num-seqs 2.5": "--max-num-seqs: expected a whole number, or one such as 8k, got '2.5'",
    "-dp 2 --data-parallel-size 4": "--data-parallel-size 4 contradicts -dp 2; give one of them",
    "--enable-dbo --no-enable-dbo": "--no-enable-dbo contradicts --enable-dbo; give one of them",
    "--enable-dbo=true": "--enable-dbo takes no value; expected --enable-dbo or --no-enable-dbo",
    "--enable-dbo true": "'true' belongs to no flag, and the model is 'm'; expected one model",
    "-dp.x 2": "-dp.x: -dp takes no keys; expected -dp VALUE",
    "-cc '{x}'": "-cc: '{x}' is not JSON: ",
    "-cc '[1]'": """-cc: expected a mapping '{"key": value}', got '[1]'""",
    """-cc '{"cudagraph_mod": 1}'""": "-cc: no key 'cudagraph_mod' is known; did you mean 'cudagraph_mode'?",
    "--eplb-config.windowsize 1": "--eplb-config: no key 'windowsize' is known; did you mean 'window_size'?",
    "--kv-transfer-config '{'": "--kv-transfer-config: '{' is not JSON: ",
    "--config serve.yaml": "--config cannot be used: dpsim does not read this file; expected its lines as flags",
    "--enable-elastic-ep": "--enable-elastic-ep cannot be used: the number of ranks would change",
    "--speculative-config.disable_by_batch_size 4": "--speculative-config: the key disable_by_batch_size cannot",
}


@pytest.mark.parametrize("flags", REFUSED)
def test_a_refused_flag_is_named(flags: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        settings(flags)
    assert str(refused.value).startswith(REFUSED[flags])
    assert "\n" not in str(refused.value)


def test_variables_of_a_command_are_read_or_ignored() -> None:
    (words,) = commands("VLLM_ALL2ALL_BACKEND=naive NCCL_DEBUG=INFO VLLM_USE_V1=1 vllm serve m --all2all-backend pplx")
    assert read(words).values == {"all2all_backend": "naive"}  # the variable wins
    assert list(read(words).ignored) == ["NCCL_DEBUG", "VLLM_USE_V1"]
    assert read(words, "0.33").values == {"all2all_backend": "pplx"}  # release 0.33 has no such variable
    assert "VLLM_ALL2ALL_BACKEND" in read(words, "0.33").ignored


@pytest.mark.parametrize(
    ("variable", "says"),
    [
        ("VLLM_ALL2ALL_BACKNED=naive", "unknown variable VLLM_ALL2ALL_BACKNED; did you mean 'VLLM_ALL2ALL_BACKEND'?"),
        ("VLLM_DP_SIZE=2", "VLLM_DP_SIZE=2 cannot be used: "),
        ("VLLM_USE_V1=0", "VLLM_USE_V1=0 cannot be used: "),
    ],
)
def test_variables_that_are_refused(variable: str, says: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        from_vllm(f"{variable} vllm serve m")
    assert str(refused.value).startswith(says)


def test_every_flag_is_in_the_table_once() -> None:
    names = [name for flag in FLAGS for name in flag.names]
    assert len(names) == len({*names})
    assert all(flag_of(name) is flag for flag in FLAGS for name in flag.names)


VALUES = ("", "1", "0", "-1", "x", "FULL", "true", "{}", '{"method": "mtp"}', '{"mode": 1}', "mp", "deepep_low_latency")
NAMES = [name for flag in FLAGS for name in flag.names if flag.verdict != "ignored"]
COMMANDS = st.lists(st.sampled_from([*NAMES, "--dp", *VALUES]), max_size=8)


def scenario_or_error(words: list[str]) -> str:
    """Translates a command. Returns the error message, or "" if the command gives a scenario."""
    try:
        from_vllm("vllm serve m " + " ".join(f"'{word}'" for word in words))
    except ScenarioError as error:
        return str(error)
    return ""


PIECES = [
    "vllm serve m ",
    "export ",
    "1A=b ",
    "A=b ",
    "-dp ",
    "-cc ",
    "-cc.mode ",
    "2 ",
    "9" * 5000,
    "[" * 9000,
    "\n",
    "é",
]
TEXTS = st.lists(st.sampled_from([*PIECES, *" \t'\"\\#<>;|&=-.$", "\x1b", "\udc80"]), max_size=12).map("".join)


@examples(60, 3000)
def test_any_text_gives_a_scenario_or_an_error(examples: int) -> None:
    def text_or_error(text: str) -> None:
        try:
            made = from_vllm(text)
        except ScenarioError:
            return
        assert parse_scenario(made.text()) == made.scenario

    holds(text_or_error, TEXTS, examples)


@examples(40, 2000)
def test_any_command_gives_a_scenario_or_an_error(examples: int) -> None:
    holds(scenario_or_error, COMMANDS, examples)


def test_commands_are_drawn_that_vllm_refuses() -> None:
    def never(command: list[str]) -> None:
        assert "vLLM refuses" not in scenario_or_error(command), "refused"

    breaks(never, COMMANDS, "refused")
