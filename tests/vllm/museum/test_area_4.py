"""Tests how many schedules the strategy `portfolio` needs to find the bugs of CUDA graphs, each in the world of its
exhibit.
"""

from __future__ import annotations

from statistics import median

import pytest

from dpsim.campaign.museum import LIMIT, exhibits, seek
from dpsim.campaign.subject import Subject
from dpsim.contract import registry
from dpsim.explore import search
from dpsim.scenario import load_scenario

AREA = (
    "dpsim.vllm.museum.captures",
    "dpsim.vllm.museum.offloading",
    "dpsim.vllm.museum.graph_bugs",
    "dpsim.vllm.museum.graphs",
)
HISTORICAL = {
    "graph-arena-move",
    "graph-shape-alias",
    "car-registration-a",
    "car-registration-b",
    "offload-unjoined",
    "sgl-schedule-war",
    "pp-captured-recv",
    "watchdog-query-capture",
}


@pytest.mark.slow
def test_planted_bugs_are_found_soon(capsys: pytest.CaptureFixture[str]) -> None:
    files, runs = exhibits(), {}
    for entry in registry.variants():
        if (entry.make.__module__ in AREA or entry.name in HISTORICAL) and entry.expected is not None:
            file = files[entry.name.lower()]
            subject = Subject.of(load_scenario(file), file.parent)
            found = seek(subject, search("portfolio"), entry.expected, LIMIT, {})
            assert found.verdict == "violated", entry.name
            runs[entry.name] = found.runs
    assert set(runs) >= HISTORICAL
    with capsys.disabled():
        print(f"\n{len(runs)} bugs of area 4: median {median(runs.values())} schedules, worst {max(runs.values())}")
    assert median(runs.values()) <= 10
    assert max(runs.values()) <= LIMIT
