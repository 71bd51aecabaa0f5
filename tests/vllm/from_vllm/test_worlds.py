"""Tests the worlds that dpsim makes of a command, one for each program: the newest release's rules unless the user
names one.

A world is a scenario's program with fixed parameters. Events must race in it, and it has the front ends that vLLM
starts.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpsim.scenario.errors import ScenarioError
from dpsim.vllm.from_vllm.nodes import nodes
from dpsim.vllm.from_vllm.translate import all_of, from_vllm
from dpsim.vllm.from_vllm.worlds import MADE, NEWEST, front_ends
from tests.cli.commands import dpsim_

COMMANDS = {
    "vllm serve m -dp 2 --enable-expert-parallel": ("dp_batch", "engine", "startup", "whole_engine_dp"),
    "vllm serve m -dp 2 -tp 2 -ep": ("dp_batch", "engine", "startup"),
    "vllm serve m -dp 3 -ep --enable-eplb --api-server-count 1": ("dp_batch", "engine", "startup", "whole_engine_dp"),
    "vllm serve m -pp 2": ("pp_tokens", "startup", "whole_engine"),
    "vllm serve m -dp 2 -dph -dpl 1 -ep --api-server-count 1": ("dp_batch", "engine", "startup", "whole_engine_dp"),
}
"""The programs for which dpsim makes a world of each command."""


@pytest.mark.parametrize("command", COMMANDS)
def test_all_worlds_of_a_deployment(command: str) -> None:
    made, left_out = all_of(command)
    assert tuple(one.scenario.protocol.name for one in made) == COMMANDS[command]
    assert len({one.scenario.name for one in made}) == len(made)
    assert (left_out == []) == (command != "vllm serve m -dp 2 -tp 2 -ep")


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_events_race_in_them(command: str, tmp_path: Path) -> None:
    made, _ = all_of(command)
    schedules = {}
    for one in made:
        file = tmp_path / f"{one.scenario.name}.yaml"
        file.write_text(one.text())
        answer = dpsim_("explore", str(file), "--schedules", "3", "--json")
        schedules[one.scenario.protocol.name] = json.loads(answer.out)["scenarios"][0]["schedules"]
    assert max(schedules.values()) > 1, schedules
    assert all(count > 1 for name, count in schedules.items() if name.endswith(("engine", "engine_dp"))), schedules


def test_the_newest_rules_are_taken_and_named_first() -> None:
    newest, old = from_vllm("vllm serve m -dp 2 -ep"), from_vllm("vllm serve m -dp 2 -ep", "0.14")
    assert (
        newest.remarks[0]
        == f"taken as: vLLM {NEWEST}, the newest release that dpsim models; --release selects another one"
    )
    assert (newest.scenario.protocol.form, newest.scenario.config.parallel_rules) == ("0.33", "0.33")
    assert not any("newest" in remark for remark in old.remarks)
    assert (old.scenario.protocol.form, old.scenario.config.parallel_rules) == ("0.14", "source-003")


@pytest.mark.parametrize(
    ("command", "count"),
    [
        ("vllm serve m", 1),
        ("vllm serve m -dp 4", 4),
        ("vllm serve m -dp 4 -asc 2", 2),
        ("vllm serve m -dp 4 -dpl 2 -dph -dpr 0\nvllm serve m -dp 4 -dpl 2 -dph -dpr 2 -asc 1", 3),
        ("vllm serve m -dp 4 -dpl 2\nvllm serve m -dp 4 -dpl 2 -dpr 2 --headless", 4),
        ("vllm serve m -dp 2 -dpn 0\nvllm serve m -dp 2 -dpn 1", 2),
    ],
)
def test_the_number_of_front_ends_follows_from_the_command(command: str, count: int) -> None:
    """Counts the API servers that `vllm serve` of release 0.33 starts: `-asc`, else one for each balanced replica.

    Behind an external load balancer, each replica has one.
    """
    assert front_ends(nodes(command)) == count


def test_front_ends_are_in_worlds_that_have_some() -> None:
    assert from_vllm("vllm serve m -dp 4 -asc 2", protocol="engine").scenario.config.api_process_count == 2
    why = "ignored: -asc: of front ends, which dp_batch does not have"
    assert why in from_vllm("vllm serve m -dp 4 -asc 2").remarks


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--protocol", "dpbatch"), f"dpsim: --protocol: expected one of {', '.join(MADE)}, all; got dpbatch\n"),
        (
            ("--protocol", "all"),
            "dpsim: --protocol all: makes several scenarios; expected a folder for them, -o FOLDER\n",
        ),
        (("--protocol", "whole_engine"), "dpsim: topology: expected pipelines of 2 to 4 stages"),
        (("--protocol", "engine", "--release", "0.17"), "dpsim: --release: engine has no form '0.17'; expected one of"),
        (
            ("--protocol", "whole_engine_dp", "--release", "0.24"),
            "dpsim: --release: whole_engine_dp has no form '0.24'",
        ),
    ],
)
def test_a_wrong_option_of_worlds_is_bad_input(words: tuple[str, ...], says: str) -> None:
    answer = dpsim_("scenario", "from-vllm", "vllm serve m -dp 2", *words)
    assert (answer.code, answer.out) == (2, "")
    assert says in answer.err


def test_no_api_server_is_refused() -> None:
    with pytest.raises(ScenarioError, match="--api-server-count 0: expected 1 or more"):
        from_vllm("vllm serve m -dp 2 --api-server-count 0", protocol="engine")


def test_a_folder_of_worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = dpsim_("scenario", "from-vllm", "vllm serve m -dp 2 -ep", "--protocol", "all", "-o", "worlds")
    assert answer.code == 0
    assert {file.name for file in Path("worlds").iterdir()} == {
        *("m.yaml", "m-engine.yaml", "m-startup.yaml", "m-whole_engine_dp.yaml")
    }
    last = "dpsim: next: dpsim run worlds/m-whole_engine_dp.yaml, then dpsim explore worlds/m-whole_engine_dp.yaml\n"
    assert answer.err.endswith(last)
    assert dpsim_("run", "worlds/m-engine.yaml").code == 0


def test_front_ends_of_a_node_are_no_setting_that_ranks_differ_in() -> None:
    first = "vllm serve m -dp 2 -dpl 1 -dph -dpr 0 -ep"
    second = "vllm serve m -dp 2 -dpl 1 -dph -dpr 1 -ep -asc 1 --max-num-seqs 8"
    told = [one for one in from_vllm(f"{first}\n{second}").remarks if "vLLM does not notice" in one]
    assert len(told) == 1
    assert "--max-num-seqs" in told[0]
