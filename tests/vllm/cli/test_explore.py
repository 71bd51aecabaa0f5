"""Tests `dpsim explore` with scenarios of an engine: the reported probes, and the sizes of small worlds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpsim.campaign import lone_ranks
from tests.cli.commands import dpsim_, write
from tests.vllm.cli.scenarios import HEALTHY

ASSUMES = (
    "assumes: no rank dies; unlimited residency; communicators are connected; unlimited launch queue; "
    "no allocation waits; ranks capture no graphs; no other effect of hardware"
)
OUTSIDE = "the scenario's own workload (ranks=3, requests=3, prompt=5, output=6)"


def test_the_probes_of_a_protocol(healthy: Path) -> None:
    lines = dpsim_("explore", healthy).out.splitlines()
    never = "dp.microbatched, dp.not_microbatched"
    assert lines[:2] == ["PROVEN  holds in every schedule of this world", ASSUMES]
    assert lines[4] == "schedules  1, the only one: nothing here can come in another order"
    assert lines[5].startswith("probes     1 of 5 reached; never: ")
    assert never in lines[5]
    assert lines[6:] == ["expected: held; met"]


def test_every_small_world_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "x.yaml", HEALTHY)
    for jobs in ("1", "2"):
        monkeypatch.setattr(lone_ranks, "ACCOUNT", lone_ranks.Account())
        answer = dpsim_("explore", file, "--all-up-to", "ranks=2,requests=1,steps=2", "--jobs", jobs)
        assert (answer.code, answer.err) == (0, "")
        printed = re.sub("ranks share no Python object: [^;]*; ", "", answer.out)
        assert re.sub(r"in [1-9]\d* of", "in some of", printed) == (
            "PROVEN  every one of these worlds holds in every schedule\n"
            "not varied: abort, lora, force_eager, prefix, encoder_inputs, stop_after, drafts, config, config_by_rank, "
            "topology.pipeline_parallel_size, topology.tensor_parallel_size, topology.prefill_context_parallel_size, "
            "topology.decode_context_parallel_size\n"
            f"{ASSUMES}\n"
            f"outside of this set: {OUTSIDE}\n"
            "\n"
            "scenario  three\n"
            "worlds    all 16 up to ranks 2, requests 1, steps 2, prompt 2, output 2, abort 0\n"
            "explored  16 worlds in 16 schedules, smaller ones first\n"
            "probes    dp.dummy_batch in 8 worlds, dp.padded_further in 4 worlds, dp.lower_mode in 4 worlds; "
            "never: dp.microbatched, dp.not_microbatched\n"
            "alone     each rank ran again in its own process in some of 16 worlds\n"
            "expected: held; met\n"
        )


def test_no_time_for_all_small_worlds(healthy: Path) -> None:
    answer = dpsim_("explore", healthy, "--all-up-to", "ranks=2", "--budget", "0s")
    assert answer.out.splitlines()[0] == "SAMPLED  no failure; 16 not begun"
    row = dpsim_("explore", healthy, "--all-up-to", "ranks=2", "--budget", "0s", "--json").json["scenarios"][0]
    assert "prefix" in row.pop("not_varied")
    assert row.pop("outside") == OUTSIDE
    assert [len(row.pop(key)) for key in ("cut_short", "next")] == [1, 1]  # tests/cli/test_explore_worlds.py
    assert row == {
        "scenario": "three",
        "sizes": {"ranks": 2, "requests": 1, "steps": 2, "prompt": 2, "output": 2, "abort": 0, "stages": None},
        "verdict": "sampled",
        "met": True,
        "unmet": None,
        "worlds": 16,
        "explored": 0,
        "proven": 0,
        "bounded": 0,
        "sampled": 0,
        "vacuous": 0,
        "alone": 0,
        "schedules": 0,
        "probes": {},
        "never_applied": [],
        "assumes": [],
        "lost": None,
        "violated": None,
    }
