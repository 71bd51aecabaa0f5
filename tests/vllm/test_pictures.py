"""Tests the picture of each scenario: it shows a wait without end exactly if a rank blocks without end."""

from __future__ import annotations

import pytest

from dpsim.diagnose.pictures.of_run import picture_of_run
from dpsim.diagnose.pictures.page import page
from dpsim.diagnose.pictures.perfetto import trace_events
from dpsim.runner import run_scenario
from dpsim.scenario import load_scenario
from tests import ROOT


@pytest.mark.nightly
def test_each_scenario_has_a_picture_that_agrees_with_its_end() -> None:
    wrong = []
    for path in sorted([*ROOT.glob("scenarios/*.yaml"), *ROOT.glob("scenarios/museum/*.yaml")]):
        if path.stem.startswith("azure"):
            continue
        result = run_scenario(load_scenario(path))
        picture = picture_of_run(result.world, result.run, result.findings, path.stem)
        stands = [op for op in picture.ops if op.end is None]
        if result.run.finished and stands:
            wrong.append(f"{path.stem}: {stands[0].said} never ends")
        if "blocked" in result.run.ends and not stands:
            wrong.append(f"{path.stem}: nothing stands")
        assert page(picture)
        assert trace_events(picture)
    assert wrong == []
