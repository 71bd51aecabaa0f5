"""Tests `dpsim museum --cluster`: each row of the table is a task, and the table equals that of a single process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.campaign.pretended_ray import on
from tests.cli.commands import dpsim_, write

pytestmark = pytest.mark.runs_once

ROWS = ("museum", "--only", "M-DP-1", "--only", "M-DP-4", "--json")


def test_the_museum_on_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ray task makes each row, and dpsim repeats a lost task.

    A faulty twin that drops lost tasks gives another table.
    """
    here = json.loads(dpsim_(*ROWS).out)
    assert [one["id"] for one in here["entries"]] == ["M-DP-1", "M-DP-4"]
    ray = on(monkeypatch, frozenset({1}))
    assert json.loads(dpsim_(*ROWS, "--cluster", "auto").out) == here
    assert ray.tasks == 3
    on(monkeypatch, frozenset({1}))
    monkeypatch.setattr("tests.campaign.pretended_ray.each", without_the_lost)
    assert json.loads(dpsim_(*ROWS, "--cluster", "auto").out) != here


def without_the_lost(ray: Any, function: Any, arguments: Any, width: int, end: float | None) -> Any:
    """Faulty twin: drops a lost task instead of repeating it."""
    for number, argument in enumerate(arguments):
        ref = ray.remote(function).remote(argument, None)
        if ref.answer is not None:
            yield number, ref.answer


def test_a_row_that_is_lost_four_times(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = on(monkeypatch, frozenset(range(1, 10)))
    answer = dpsim_(*ROWS[:3], "--cluster", "auto")
    assert (answer.code, ray.tasks) == (3, 4)
    assert "M-DP-1: 4 processes ended over it, the last with RayError" in answer.err


def test_an_exhibit_has_no_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "name: m-dp-1\nprotocol: {name: dp_batch, variant: M-DP-1}\nlimits: {preemptions: 1}\n"
    text += "workload: {requests: [{arrival: 0ms, prompt_tokens: 1, output_tokens: 1}]}\n"
    Path("mine").mkdir()
    write(Path("mine/m-dp-1.yaml"), text)
    answer = dpsim_("museum", "--only", "M-DP-1", "--exhibits", "mine")
    assert answer.code == 2
    assert "limits.preemptions: the museum explores without bounds; leave it out" in answer.err
