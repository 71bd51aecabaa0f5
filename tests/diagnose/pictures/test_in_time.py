"""Tests of pictures with the durations of a run: they show the same ops as in ticks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpsim.diagnose.pictures.of_run import picture_of_run
from dpsim.diagnose.pictures.op import DrawnOp, Picture
from dpsim.diagnose.pictures.perfetto import trace_events
from dpsim.runner import Result, run_scenario
from dpsim.scenario import load_scenario
from dpsim.sim.graph.costs import REFERENCE
from tests.agreeing import HEALTHY, SKIP
from tests.cli.commands import write


def done(folder: Path, text: str, backend: str = "sim") -> Result:
    return run_scenario(load_scenario(write(folder / "x.yaml", text)), backend)


def pictured(result: Result, in_ticks: bool = False) -> Picture:
    return picture_of_run(result.world, result.run, result.findings, "x", in_ticks)


def named(picture: Picture) -> list[tuple[int, str, str, bool, bool, str]]:
    """Returns each op, whether it begins and ends, and its label. A read that did not wait has no length in ticks."""
    return [
        (op.rank, op.lane, op.address, op.begin is None, op.end is None, op.label)
        for op in picture.ops
        if not op.silent
    ]


def of(picture: Picture, site: str, rank: int = 0) -> DrawnOp:
    return next(op for op in picture.ops if (op.rank, op.site) == (rank, site))


@pytest.mark.parametrize("text", [HEALTHY, HEALTHY + SKIP])
def test_the_simulation_has_its_own_durations(tmp_path: Path, text: str) -> None:
    result = done(tmp_path, text)
    in_time, in_ticks = pictured(result), pictured(result, in_ticks=True)
    assert (in_time.unit, in_ticks.unit) == ("ns", "tick")
    assert named(in_time) == named(in_ticks)
    agree = of(in_time, "dp.agree")
    assert agree.arrival is not None
    assert agree.end is not None
    ranks = len({op.rank for op in in_time.ops})
    elements = int(agree.said.partition("[")[2].partition("]")[0])
    assert agree.end - agree.arrival == REFERENCE.on_host(ranks, 4 * elements)
    assert not in_time.open_ends


def test_a_run_that_keeps_no_times_is_in_ticks(tmp_path: Path) -> None:
    result = done(tmp_path, HEALTHY)
    result.run.times = ()
    assert pictured(result).unit == "tick"
    assert pictured(result).last == pictured(result, in_ticks=True).last


def test_trace_events_are_in_microseconds(tmp_path: Path) -> None:
    picture = pictured(done(tmp_path, HEALTHY))
    events = [one for one in trace_events(picture)["traceEvents"] if one["ph"] == "X" and one["pid"] == 0]
    begin, end = (of(picture, "dp.agree").begin or 0), (of(picture, "dp.agree").end or 0)
    agree = next(one for one in events if one["name"] == "dp.agree")
    assert (agree["ts"], agree["dur"]) == (begin / 1_000, (end - begin) / 1_000)


@pytest.mark.slow
def test_gloo_has_the_times_at_which_its_hosts_called_and_returned(dpsim_backend: Any, tmp_path: Path) -> None:
    dpsim_backend("gloo", size=3)
    result = done(tmp_path, HEALTHY, "gloo")
    in_time = pictured(result)
    assert named(in_time) == named(pictured(result, in_ticks=True))
    assert in_time.unit == "ns"
    assert in_time.open_ends
    parts: dict[Any, list[DrawnOp]] = {}
    for op in in_time.ops:
        if op.kind == "collective" and op.lane == "host":
            parts.setdefault(op.key, []).append(op)
    assert parts
    for members in parts.values():  # one clock: no rank leaves a collective before the last joins
        last = max(op.begin or 0 for op in members)
        assert all(op.arrival == last and (op.end or 0) > last for op in members)
