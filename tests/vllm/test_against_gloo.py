"""Tests the shipped scenarios on gloo: each proven one shows there only what its search saw.

    pytest -m nightly tests/vllm/test_against_gloo.py

REFUSED lists the scenarios that gloo does not run, each with the reason. A scenario that fails in some schedule has no
proof to refute, so it has no run.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dpsim.campaign.against import AgainstBackend, against
from dpsim.campaign.deepening import explore_each
from dpsim.campaign.files import Options
from dpsim.contract.world import Backend
from dpsim.scenario import load_scenario
from dpsim.scenario.to_world import OnlySimulated
from tests import ROOT

pytest.importorskip("torch")

pytestmark = pytest.mark.xdist_group("gloo")

REFUSED = {
    "killed_rank": "cannot kill a rank between two ops",
    "pp2_one_slot": "has no such limit",
    "startup_ports": "starts no other program in the midst of a run",
}

LONG = ("azure_code_dp2", "azure_code_dp4")
"""Scenarios of thousands of calls, so that their pauses take long: one run each."""

SECONDS = 20.0
"""The time of each search, so that a long one is a sample."""

SCENARIOS = sorted((ROOT / "scenarios").glob("*.yaml"), key=lambda path: path.stem)


@pytest.mark.nightly
@pytest.mark.parametrize("file", SCENARIOS, ids=lambda path: path.stem)
def test_gloo_shows_only_what_the_search_saw(file: Path, dpsim_backend: Callable[..., Backend], tmp_path: Path) -> None:
    scenario, wanted = load_scenario(file), AgainstBackend("gloo", 1 if file.stem in LONG else 5)
    dpsim_backend("gloo", size=scenario.size)
    if file.stem in REFUSED:
        with pytest.raises(OnlySimulated, match=REFUSED[file.stem]):
            wanted.refuse(scenario)
        return
    wanted.refuse(scenario)
    options = Options(seconds=SECONDS, folder=tmp_path, outcomes=True)
    [outcome] = explore_each([(scenario, file.parent)], options)
    found = against(outcome.explored, wanted)
    assert found.refutes is None, "\n".join(found.described())
    assert found.runs or outcome.explored.verdict == "violated"


@pytest.mark.slow
def test_gloo_shows_only_what_the_search_of_one_scenario_saw(
    dpsim_backend: Callable[..., Backend], tmp_path: Path
) -> None:
    """This scenario has more than one outcome."""
    dpsim_backend("gloo", size=2)
    file = ROOT / "scenarios" / "engine_abort.yaml"
    [outcome] = explore_each([(load_scenario(file), file.parent)], Options(folder=tmp_path, outcomes=True))
    found = against(outcome.explored, AgainstBackend("gloo", 5))
    assert (outcome.explored.verdict, found.refutes, found.runs) == ("proven", None, 5)
