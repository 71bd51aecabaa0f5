"""`dpsim list` and `dpsim schema`: what there is to run, and what a scenario file may hold."""

from __future__ import annotations

import re

import pytest

from dpsim import runner
from dpsim.contract.world import BackendUnavailable
from tests.cli.commands import Fake, dpsim_, needs_torch


def test_list() -> None:
    answer = dpsim_("list")
    assert answer.code == 0
    assert re.search(r"^  quickstart +\S.*\.$", answer.out, re.MULTILINE)
    assert re.search(r"^  dp_batch +source-000, 0.14, 0.33, v2-0.33, v2-0.17$", answer.out, re.MULTILINE)
    assert re.search(r"^  M-DP-1 +dp_batch +A rank without tokens", answer.out, re.MULTILINE)
    assert re.search(r"^  sim +runs here$", answer.out, re.MULTILINE)
    found = dpsim_("list", "--json").json
    assert list(found) == ["scenarios", "protocols", "variants", "backends"]
    assert {"name": "sim", "reason": None} in found["backends"]
    assert all(entry["expected"] or entry["reason"] for entry in found["variants"])


def test_list_says_why_a_backend_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "backend_names", lambda: ["fake", "torchless"])
    monkeypatch.setitem(runner._backends, "fake", Fake(BackendUnavailable("it needs 2 abaci, and there are none")))
    monkeypatch.setattr(runner, "find_backend", needs_torch(runner.find_backend))
    answer = dpsim_("list")
    assert "  fake       cannot run here: it needs 2 abaci, and there are none\n" in answer.out
    assert "  torchless  cannot run here: cannot be loaded: No module named 'torch'\n" in answer.out


def test_schema() -> None:
    answer = dpsim_("schema")
    assert answer.code == 0
    assert answer.json["title"] == "dpsim scenario"
