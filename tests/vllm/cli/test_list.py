"""Tests that `dpsim list` lists the scenarios, protocols and variants of an engine."""

from __future__ import annotations

import re

from tests.cli.commands import dpsim_


def test_list_prints_scenarios_forms_and_variants_of_vllm() -> None:
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
