"""The commands of several nodes are one deployment: they say the same, and start each replica once."""

from __future__ import annotations

import pytest

from dpsim.scenario import ScenarioError
from dpsim.scenario.from_vllm import from_vllm
from dpsim.scenario.from_vllm.nodes import nodes

TWO = "vllm serve m -dp 4 -dpl 2{first}\nvllm serve m --headless -dp 4 -dpl 2 -dpr 2{second}\n"
_SPREAD = "vllm serve m -tp 8 -pp 2 --nnodes 2 --node-rank"
SPREAD = f"{_SPREAD} 0\n{_SPREAD} {{rank}} --headless"


def refusal(text: str) -> str:
    with pytest.raises(ScenarioError) as refused:
        nodes(text)
    return str(refused.value)


def test_what_is_of_a_node_may_differ() -> None:
    assert len(nodes(TWO.format(first=" --port 80", second=""))) == 2
    assert from_vllm(TWO.format(first="", second="")).scenario.topology.data_parallel_size == 4
    assert len(nodes(SPREAD.format(rank=1))) == 2


def test_one_command_stands_for_all() -> None:
    assert len(nodes("vllm serve m -dp 4 -dpl 2 -dpr 2 --headless")) == 1


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        (" --enable-dbo", "", "--enable-dbo: command 1 says true, command 2 says nothing; vLLM refuses to start"),
        ("", " -tp 2", "-tp: command 1 says nothing, command 2 says 2; vLLM refuses to start"),
        (
            " --max-num-seqs 64",
            " --max-num-seqs 32",
            "--max-num-seqs: command 1 says 64, command 2 says 32; vLLM does not",
        ),
        (" -O1", " -O2", "-O2: command 1 says 1, command 2 says 2; vLLM does not compare it"),
        (
            " -cc.cudagraph_mode FULL",
            "",
            "-cc.cudagraph_mode: command 1 says FULL, command 2 says nothing; vLLM does not",
        ),
        (
            " --eplb-config.window_size 5",
            "",
            "--eplb-config.window_size: command 1 says 5, command 2 says nothing; vLLM refuses",
        ),
    ],
)
def test_what_ranks_agree_on_must_not_differ(first: str, second: str, says: str) -> None:
    assert refusal(TWO.format(first=first, second=second)).startswith(says)


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


def test_what_is_exported_holds_for_all_that_follow() -> None:
    text = "export VLLM_ALL2ALL_BACKEND=naive\ncd /srv\nvllm serve m -dp 2 -dpn 0\nvllm serve m -dp 2 -dpn 1"
    assert [settings.values["all2all_backend"] for settings in nodes(text)] == ["naive", "naive"]
