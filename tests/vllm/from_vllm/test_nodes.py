"""Tests the commands of several nodes as one deployment: which settings must be equal, and what happens if others
differ.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim import runner
from dpsim.scenario import ScenarioError, parse_scenario
from dpsim.vllm.from_vllm.nodes import nodes
from dpsim.vllm.from_vllm.translate import from_vllm

DRAFTS = " -sc.method mtp -sc.num_speculative_tokens 2"
TWO = "vllm serve m -dp 4 -dpl 2{first}\nvllm serve m --headless -dp 4 -dpl 2 -dpr 2{second}\n"
_SPREAD = "vllm serve m -tp 8 -pp 2 --nnodes 2 --node-rank"
SPREAD = f"{_SPREAD} 0\n{_SPREAD} {{rank}} --headless"


def refusal(text: str) -> str:
    with pytest.raises(ScenarioError) as refused:
        nodes(text)
    return str(refused.value)


def test_settings_of_single_nodes_may_differ() -> None:
    assert len(nodes(TWO.format(first=" --port 80", second=""))) == 2
    assert from_vllm(TWO.format(first="", second="")).scenario.topology.data_parallel_size == 4
    assert len(nodes(SPREAD.format(rank=1))) == 2


def test_one_command_describes_all_nodes() -> None:
    assert len(nodes("vllm serve m -dp 4 -dpl 2 -dpr 2 --headless")) == 1


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        (" --enable-dbo", "", "--enable-dbo: command 1 says true, command 2 says nothing; vLLM refuses to start"),
        ("", " -tp 2", "-tp: command 1 says nothing, command 2 says 2; vLLM refuses to start"),
        (
            " --eplb-config.window_size 5",
            "",
            "--eplb-config.window_size: command 1 says 5, command 2 says nothing; vLLM",
        ),
    ],
)
def test_settings_that_the_hash_covers_must_not_differ(first: str, second: str, says: str) -> None:
    assert refusal(TWO.format(first=first, second=second)).startswith(says)


def test_settings_that_follow_from_hashed_ones_must_not_differ() -> None:
    with pytest.raises(
        ScenarioError, match=r"refuses to start, as disable_nccl_for_dp_synchronization is not the same$"
    ):
        from_vllm(TWO.format(first=" --no-async-scheduling", second=""))


@pytest.mark.parametrize(
    ("first", "second", "own", "verdict"),
    [
        (" --max-num-seqs 64", " --max-num-seqs 32", {"max_num_seqs": 32}, "held"),
        ("", " -O0", {"cudagraph_mode": "NONE"}, "held"),
        (" -cc.backend 'a\nb'", " -O0", {"cudagraph_mode": "NONE"}, "held"),  # inside a comment
        ("", DRAFTS, {"num_speculative_tokens": 2, "speculative_method": "mtp"}, "violated"),
        (DRAFTS, DRAFTS, {}, "held"),
    ],
)
def test_settings_that_vllm_does_not_compare_become_settings_of_ranks(
    first: str, second: str, own: dict[str, Any], verdict: str
) -> None:
    """A setting that vLLM does not compare across nodes becomes a setting of single ranks, and dpsim remarks on it.

    A drafter on one of two nodes then hangs, which only a run shows.
    """
    made = from_vllm(TWO.format(first=first, second=second))
    told = [one.model_dump(mode="json") for one in made.scenario.config_by_rank.values()]
    assert told == [own, own] * bool(own)
    assert list(made.scenario.config_by_rank) == [2, 3] * bool(own)
    assert any("ranks 2, 3 have different settings" in line for line in made.remarks) == bool(own)
    assert parse_scenario(made.text()) == made.scenario
    assert runner.run_scenario(made.scenario).verdict == verdict


def test_a_replica_on_two_nodes_has_one_configuration() -> None:
    with pytest.raises(ScenarioError, match="dpsim models different settings only for whole replicas of dp_batch"):
        from_vllm(SPREAD.format(rank=1) + " --max-num-seqs 4")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (TWO.format(first="", second="").replace("-dpr 2", "-dpr 1"), "replica 1 is in command 1 and in command 2"),
        (TWO.format(first="", second="").replace("-dpr 2", "-dpr 3"), "no command has replica 2 of 4"),
        (TWO.format(first="", second="").replace("-dp 4", "-dp 6"), "no command has replica 4, 5 of 6"),
        ("vllm serve m -dp 2 -dpn 0\nvllm serve m -dp 2 -dpn 0", "replica 0 is in command 1 and in command 2"),
        (SPREAD.format(rank=0), "--node-rank: node 0 is in command 1 and in command 2; expected once"),
        ("", "no command that serves: expected `vllm serve MODEL ...`; got nothing"),
        ("ray start --head", "no command that serves: expected `vllm serve MODEL ...`; got 'ray start --head'"),
        ("docker run vllm/vllm-openai --model m", "of a container, give what stands behind its image"),
    ],
)
def test_every_replica_is_started_once(text: str, says: str) -> None:
    assert says in refusal(text)


def test_an_exported_variable_holds_for_all_later_commands() -> None:
    text = "export VLLM_ALL2ALL_BACKEND=naive\ncd /srv\nvllm serve m -dp 2 -dpn 0\nvllm serve m -dp 2 -dpn 1"
    assert [settings.values["all2all_backend"] for settings in nodes(text)] == ["naive", "naive"]
