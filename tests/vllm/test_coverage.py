"""Tests what vLLM's programs declare for campaigns: modes, rows of tables, pieces, and the sizes of small worlds.

A campaign counts which of these its runs have reached.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpsim.campaign.coverage import Coverage
from dpsim.campaign.searches import search_subject
from dpsim.campaign.subject import Subject
from dpsim.contract.registry import protocols
from dpsim.explore import Exploration, search
from dpsim.scenario import Scenario, load_scenario
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.overlap import wrapper
from dpsim.vllm.programs.modes import OVERLAP_ROWS, RUNTIME_MODES, STEP_MODES
from tests import ROOT


def scenario(name: str) -> Scenario:
    return load_scenario(ROOT / "scenarios" / f"{name}.yaml")


def reached(name: str) -> set[str]:
    """Returns the forms and pieces that one schedule of a scenario reaches, without the name of the protocol."""
    coverage = Coverage()
    coverage.add(Subject.of(scenario(name), ROOT / "scenarios"), Exploration(runs=1))
    return {row.partition(": ")[2] for row, worlds in coverage.counts["rows"].items() if worlds}


def explored(name: str) -> Coverage:
    """Returns the coverage of the first schedule."""
    subject, coverage = Subject.of(scenario(name), ROOT / "scenarios"), Coverage()
    coverage.add(subject, search_subject(subject, search("fifo"), schedules=1, stop_at_first=True))
    return coverage


def test_the_modes_of_steps() -> None:
    assert {mode.name for mode in RuntimeMode} == set(RUNTIME_MODES)
    assert explored("quickstart").never("modes") == [
        "dp_batch: NONE, microbatched",
        "dp_batch: PIECEWISE, microbatched",
    ]
    eager = explored("dbo_small")  # the contrast: no rank captures graphs, and ranks split each step
    assert [name for name, worlds in eager.counts["modes"].items() if worlds] == ["dbo: NONE, microbatched"]
    assert [name for name, worlds in eager.counts["rows"].items() if worlds and "row " in name] == [
        "dbo: row overlap threads"
    ]


def test_the_table_of_overlaps_has_each_row_that_a_wrapper_decides() -> None:
    decided = set(re.findall(r"self\.decided\((.*)\)", Path(wrapper.__file__).read_text()))
    words = {word for text in decided for word in re.findall(r'"(\w+)"', text)}
    assert {value for _, value in OVERLAP_ROWS.values()} == words


def test_names_of_modes_and_rows_do_not_meet() -> None:
    assert len(STEP_MODES) == 6
    for entry in protocols():
        assert not set(entry.program.modes) & set(entry.program.rows), entry.name


@pytest.mark.parametrize(
    ("name", "has", "lacks"),
    [
        ("whole_engine_small", "piece tokens 0.33-repaired", "piece microbatches v1-0.33"),
        ("whole_engine_split", "piece microbatches source-001", "piece tokens 0.33-repaired"),
        ("whole_engine_dp_v2", "piece runner v2", "piece runner v1"),
        ("whole_engine_dp", "piece runner v1", "piece runner v2"),
        ("engine_balanced", "piece counts published", "piece counts own"),
        ("engine_two_waves", "piece counts own", "piece counts published"),
        ("startup_mismatch", "piece compared fields", "piece compared hash"),
        ("startup_ports", "piece compared hash", "piece compared fields"),
        ("quickstart", "form source-000", "form 0.33"),
    ],
)
def test_the_pieces_that_a_world_uses(name: str, has: str, lacks: str) -> None:
    """A world counts the pieces that it replaces and those of its form, but no piece that its run does not use."""
    rows = reached(name)
    assert has in rows
    assert lacks not in rows


def test_no_schedule_uses_no_piece() -> None:
    coverage = Coverage()
    coverage.add(Subject.of(scenario("whole_engine_small"), ROOT / "scenarios"), Exploration())
    assert coverage.reached("rows") == 0


def test_small_worlds_abort_where_the_program_looks_at_it() -> None:
    assert scenario("engine_two_waves").small_sizes == "requests=2,steps=2,abort=1"
    assert scenario("startup_ports").small_sizes == "requests=2,steps=2,abort=0"
