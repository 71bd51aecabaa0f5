"""Tests that mistakes in scenarios of an engine end in a one-line error."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from dpsim.campaign import subject
from tests.cli.commands import dpsim_, write
from tests.cli.test_lost import WHY, Losing
from tests.vllm.cli.scenarios import HEALTHY

TOKENS = "name: t\nprotocol: {name: pp_tokens}\nworkload: {requests: [{prompt_tokens: 40, output_tokens: 2}]}\n"


def test_errors_of_a_scenario_have_their_places(tmp_path: Path) -> None:
    write(tmp_path / "x.yaml", HEALTHY.replace("topology", "topologie") + "expect: {verdict: fine}\n")
    answer = dpsim_("run", "x.yaml")
    assert (answer.code, answer.out) == (2, "")
    lines = answer.err.splitlines()
    assert len(lines) == 2
    assert re.match(r"dpsim: x\.yaml:3:1: unknown key 'topologie'.*did you mean 'topology'", lines[0])
    assert re.match(r"dpsim: x\.yaml:10:\d+: expect\.verdict: .*held", lines[1])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "quickstart", "--workload", "missing.csv"), "missing.csv"),
        (("run", "quickstart", "--requests", "999999999"), "workload.limit"),
        (("explore", "quickstart", "--all-up-to", "abort=2"), "--all-up-to: abort: expected 0 or 1"),
        (("explore", "quickstart", "--all-up-to", "requests=9,steps=9"), "--all-up-to: these are "),
        (
            ("explore", "quickstart", "--all-up-to", "rank=2"),
            "--all-up-to: 'rank' is no size; did you mean 'ranks'. .there are ranks",
        ),
        (
            ("explore", "quickstart", "--all-up-to", "ranks=0"),
            "--all-up-to: ranks: expected a number from 1 to 1000, as in ranks=1",
        ),
    ],
)
def test_bad_input_ends_with_2_and_one_message(words: tuple[str, ...], said: str) -> None:
    answer = dpsim_(*words)
    assert (answer.code, answer.out) == (2, "")
    assert all(line.startswith("dpsim: ") for line in answer.err.splitlines())
    assert re.search(said, answer.err)


@pytest.mark.parametrize("command", ["run", "explore"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TOKENS + "topology: {pipeline_parallel_size: 5}\n", "topology: expected .* 1 to 4 stages"),
        (TOKENS + "config: {num_gpu_blocks_override: 2}\n", "num_gpu_blocks_override: expected at least 3, .* got 2"),
        (
            TOKENS.replace("pp_tokens", "dp_batch") + "config: {num_gpu_blocks_override: 2}\n",
            "num_gpu_blocks_override: dp_batch models no .*; remove it",
        ),
    ],
)
def test_a_scenario_that_a_protocol_cannot_run_is_one_line(tmp_path: Path, command: str, text: str, said: str) -> None:
    write(tmp_path / "x.yaml", text)
    answer = dpsim_(command, "x.yaml")
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert re.search(said, answer.err)


def test_a_run_that_holds_fits_sixty_columns() -> None:
    assert max(len(line) for line in dpsim_("run", "quickstart", "--trace", "x.jsonl").out.splitlines()) <= 60


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes by name")
def test_a_pipe_is_refused_unread(healthy: Path) -> None:
    """`dpsim run` refuses a named pipe as workload without opening it, because opening it would block until a process
    writes.
    """
    os.mkfifo("pipe.yaml")
    answer = dpsim_("run", healthy, "--workload", "pipe.yaml")
    assert (answer.code, answer.out) == (2, "")
    assert "pipe.yaml" in answer.err
    assert answer.err.count("\n") == 1


def test_a_museum_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the backend cannot run an exhibit, `dpsim museum` stops with exit code 3.

    It counts the exhibit neither as found nor as missed.
    """
    monkeypatch.setattr(subject, "SimBackend", Losing)
    answer = dpsim_("museum", "--only", "m-dp-1")
    assert (answer.code, answer.out) == (3, "")
    assert answer.err.startswith(f"dpsim: {WHY}\n")
