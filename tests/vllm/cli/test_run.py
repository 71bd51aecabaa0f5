"""Tests `dpsim run` with scenarios of an engine: its figures, other requests, graphs, and settings of single ranks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpsim import runner
from dpsim.contract.ops import KIND
from dpsim.scenario import load_scenario
from tests import agreeing
from tests.cli.commands import SKIP, dpsim_, write
from tests.vllm.cli.scenarios import HEALTHY


def test_the_figures_of_a_run(healthy: Path) -> None:
    answer = dpsim_("run", healthy)
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert [lines[0], lines[-1]] == ["HELD  in 1 schedule: 6 steps on 3 ranks (sim)", "expected: held; met"]
    names = [re.split("  +", line)[0] for line in lines[2:-1]]
    assert names == [
        *("scenario", "backend", "ranks", "steps", "tokens scheduled", "tokens run", "padded-token overhead"),
        *("steps by graph mode", "microbatched steps", "simulated time"),
        *("rank 0 waited", "rank 1 waited", "rank 2 waited"),
    ]
    assert re.search(r"^steps by graph mode +NONE \d+, PIECEWISE \d+, FULL \d+$", answer.out, re.MULTILINE)
    assert re.search(r"^rank 1 waited +[\d.]+ (ns|us|ms)( \([\d.]+ %\))?$", answer.out, re.MULTILINE)


def test_the_replay_repeats_what_was_asked(tmp_path: Path) -> None:
    (tmp_path / "my folder").mkdir()
    scenario = write(tmp_path / "my folder" / "x.yaml", HEALTHY + SKIP)
    answer = dpsim_("run", scenario, "--requests", "2")
    assert f"next      dpsim run '{scenario}' --requests 2 --full\n" in answer.out


def test_bundled_scenarios_run_by_name() -> None:
    answer = dpsim_("run", "quickstart")
    assert (answer.code, answer.out[:4]) == (0, "HELD")


def test_fewer_requests_and_another_workload(healthy: Path, tmp_path: Path) -> None:
    assert dpsim_("run", healthy, "--requests", "1", "--json").json["figures"]["tokens scheduled"] == 5 + 5
    write(tmp_path / "w.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n")
    found = dpsim_("run", healthy, "--workload", "w.csv", "--json").json
    assert (found["steps"], found["figures"]["tokens scheduled"]) == (44, 374 + 43)


CAPTURED = HEALTHY.replace("async_scheduling: true", "capture_graphs: true, cudagraph_capture_sizes: [4]")


@pytest.mark.slow
def test_graphs_are_counted_where_they_are_asked_for(tmp_path: Path) -> None:
    """With `capture_graphs: true`, the report counts captures and replays.

    If the configuration leaves no graph to capture, the report states "none captured", so that the user notices.
    """
    scenario = write(tmp_path / "x.yaml", CAPTURED)
    journals = runner.run_scenario(load_scenario(scenario)).run.journals
    raws = [raw for journal in journals for raw in journal]
    counts = sum(raw[KIND] == "capture" and "end" in raw for raw in raws), sum(raw[KIND] == "replay" for raw in raws)
    assert min(counts) > 0
    assert re.search(rf"^graphs +{counts[0]} captured, {counts[1]} replays$", dpsim_("run", scenario).out, re.MULTILINE)
    assert dpsim_("run", scenario, "--json").json["graphs"] == {"captured": counts[0], "replayed": counts[1]}
    for nothing in ("enforce_eager: true", "cudagraph_mode: NONE"):
        write(scenario, CAPTURED.replace("capture_graphs: true", f"capture_graphs: true, {nothing}"))
        assert re.search("^graphs +none captured$", dpsim_("run", scenario).out, re.MULTILINE)
        assert dpsim_("run", scenario, "--json").json["graphs"] == {"captured": 0, "replayed": 0}


@pytest.mark.parametrize("protocol", ["dp_batch", "pp_tokens"])
@pytest.mark.parametrize("asked", ["enable_dbo: true", "ubatch_size: 2", "enable_dbo: true, ubatch_size: 3"])
def test_captures_and_microbatches_are_refused(protocol: str, asked: str, tmp_path: Path) -> None:
    """`capture_graphs` with microbatches is bad input.

    The message names the microbatch keys of the scenario, and no others.
    """
    topology = "pipeline_parallel_size: 2" if protocol == "pp_tokens" else "data_parallel_size: 3"
    text = CAPTURED.replace("data_parallel_size: 3", topology) + f"protocol: {protocol}\n"
    keys = ", ".join(re.findall(r"(\w+):", asked))
    scenario = write(tmp_path / "x.yaml", text)
    assert dpsim_("run", scenario).code == 0
    write(scenario, text.replace("capture_graphs", f"{asked}, capture_graphs"))
    answer = dpsim_("run", scenario)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.endswith(f"three: config.capture_graphs: microbatches are not captured; remove {keys}\n")


def test_a_mismatch_names_the_settings_that_differ(tmp_path: Path) -> None:
    """The report lists the settings that `config_by_rank` changes, because a differing flag may be the cause of the
    hang.

    The faulty twin reports which rank waits for which, but not the flag.
    """
    text = "name: t\ntopology: {data_parallel_size: 3}\nconfig_by_rank: {0: OWN, 2: OWN}\n"
    text += "workload: {requests: [{prompt_tokens: 9, output_tokens: 3}]}\n"
    own = "{disable_nccl_for_dp_synchronization: true, enforce_eager: false}"
    (tmp_path / "t.yaml").write_text(text.replace("OWN", own))
    lines = dpsim_("run", tmp_path / "t.yaml").out.splitlines()
    at = lines.index("settings of single ranks, by config_by_rank:")
    assert lines[at + 1 : at + 3] == ["  ranks 0, 2: disable_nccl_for_dp_synchronization true (config: unset)", ""]
    (tmp_path / "t.yaml").write_text(text.replace("OWN", "{}"))
    assert "settings of single ranks" not in dpsim_("run", tmp_path / "t.yaml").out


def test_options_of_a_workload_need_a_scenario_with_one(tmp_path: Path) -> None:
    """`--requests` and `--workload` are bad input for a protocol with its own parameters, which has no workload."""
    scenario = write(tmp_path / "x.yaml", agreeing.HEALTHY)
    for words in (("--requests", "2"), ("--workload", "w.csv")):
        answer = dpsim_("run", scenario, *words)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err == f"dpsim: {words[0]}: t_agrees has no workload; leave the option out\n"
