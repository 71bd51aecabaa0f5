"""Tests the scenario files that dpsim ships: they load, and each contains what its description promises."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dpsim.scenario import Scenario, ScenarioError, dump_scenario, load_scenario, parse_scenario
from dpsim.vllm.data_parallel.timeline import Timeline
from dpsim.vllm.graphs.dispatcher import Dispatcher014
from tests import ROOT

FOLDER = ROOT / "scenarios"
FILES = sorted(FOLDER.glob("*.yaml"))


def load(name: str) -> Scenario:
    return load_scenario(FOLDER / f"{name}.yaml")


def timeline(scenario: Scenario) -> Timeline:
    found = scenario.requests(FOLDER)
    return Timeline(found, scenario.topology.data_parallel_size, scenario.config, scenario.workload.step_duration)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_shipped_scenario_loads_and_is_written_back(file: Path) -> None:
    scenario = load_scenario(file)
    assert scenario.name == file.stem
    assert scenario.description
    assert parse_scenario(dump_scenario(scenario)) == scenario
    assert 1 <= timeline(scenario).steps <= 1000


def test_the_basic_scenarios_are_shipped() -> None:
    names = {
        "quickstart",
        "azure_code_dp2",
        "azure_code_dp4",
        "skip_one",
        "skip_expert",
        "forced_eager_014",
        "late_rank",
    }
    assert names <= {file.stem for file in FILES}


def test_quickstart_is_small() -> None:
    quickstart = load("quickstart")
    assert (quickstart.topology.data_parallel_size, quickstart.config.use_ubatching) == (4, True)
    assert 80 <= timeline(quickstart).steps <= 130


def test_azure_sample_has_the_form_of_the_trace() -> None:
    content = (FOLDER / "azure_sample.csv").read_bytes()
    assert content.startswith(b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 ")
    assert not content.endswith(b"\n")
    assert len(load("azure_code_dp4").requests(FOLDER)) == 20


@pytest.mark.parametrize("name", ["skip_one", "skip_expert"])
def test_all_ranks_have_work_when_one_skips(name: str) -> None:
    scenario = load(name)
    assert scenario.config.syncs_on_host
    steps = timeline(scenario)
    assert steps.steps >= 30
    assert all(batch.num_tokens for step in range(30) for batch in steps.batches(step))
    (fault,) = scenario.faults
    culprit = scenario.expect.culprit
    assert culprit is not None
    assert fault.at is not None
    assert (fault.rank, fault.at.ordinal) == (culprit.rank, culprit.step) == (1, 5)
    assert scenario.expect.klass == "HANG:COLLECTIVE"


def test_forced_eager_meets_a_decode_at_a_graph_size() -> None:
    scenario = load("forced_eager_014")
    assert scenario.protocol.resolved_form == "0.14"
    steps = timeline(scenario)
    batches = [steps.batches(step) for step in range(steps.steps)]
    ((eager, decode),) = [pair for pair in batches if pair[0].force_eager]
    assert eager.num_tokens in Dispatcher014(scenario.config).sizes
    assert decode.uniform_decode(1)
    assert decode.num_tokens < eager.num_tokens


@pytest.mark.parametrize("kind", ["fifo", "zero", "huge"])
def test_a_pipe_a_device_and_a_huge_file_are_refused_unread(kind: str, tmp_path: Path) -> None:
    """dpsim refuses a pipe, a device or a huge file unread: a pipe would block, and a device would never end."""
    file = tmp_path / "x.yaml"
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "zero":
        file.symlink_to("/dev/zero")
    else:
        file.touch()
        os.truncate(file, 1 << 40)
    said = "larger than 4 MiB; expected a scenario, " if kind == "huge" else "not a regular file; expected a scenario"
    with pytest.raises(ScenarioError, match=f"x.yaml: {said}"):
        load_scenario(file)
