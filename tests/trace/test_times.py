"""Tests of the begin and end times of ops in a trace. The digest does not cover them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.ops import KIND
from dpsim.contract.times import ActorTimes
from dpsim.contract.world import At, Delay, Run
from dpsim.trace import TraceError, digest, read_trace, write_trace
from dpsim.trace.strict_json import MOST_VALUES
from tests.programs import run, world_of

WORLD = world_of(2, hosts=["h"], times=True, delays=(Delay(1, At("agree", 0), 5_000),))
"""The delay has a record that traces omit."""


def kernel() -> None:
    """A kernel that does nothing."""


async def script(rank: Rank) -> None:
    rank.stream("main").launch("work", kernel)
    await rank.host("h").all_reduce(np.ones(1, np.int32), site="agree")


@pytest.fixture
def done() -> Run:
    return run(WORLD, script)


def written(path: Path, made: Run) -> Path:
    write_trace(path, made, scenario={}, verdict="held", klass=None)
    return path


def shown(made: Run) -> list[list[tuple[str, int, int | None]]]:
    """Returns the kind, the begin and the end of each record of each rank, except records that traces omit."""
    return [
        [(raw[KIND], own.written[at], own.over.get(at)) for at, raw in enumerate(journal) if raw[KIND] != "injected"]
        for journal, own in zip(made.journals, made.times, strict=True)
    ]


def test_a_trace_has_the_times_of_its_run(tmp_path: Path, done: Run) -> None:
    assert any(raw[KIND] == "injected" for raw in done.journals[1])
    later = [
        ActorTimes([at + 7 for at in one.written], {at: ns + 7 for at, ns in one.over.items()}) for one in done.times
    ]
    for made in (done, replace(done, times=later)):  # the same times from another start of the clock
        again = read_trace(written(tmp_path / "x", made))
        assert shown(again.run()) == shown(done)
        assert again.header.digest == digest(done.journals)


def test_a_run_without_them_has_no_section(tmp_path: Path, done: Run) -> None:
    """Checks that a run without times has no section. The faulty twins have times of other journals."""
    for times in ((), done.times[:1], [replaced(done.times[0]), done.times[1]]):
        path = written(tmp_path / "x", replace(done, times=times))
        assert b'"times"' not in path.read_bytes()
        assert read_trace(path).run().times == ()


def replaced(one: ActorTimes) -> ActorTimes:
    return ActorTimes(one.written[1:], one.over)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"written": [[0], [0]]},
        {"written": [[0]], "over": [[], []]},
        {"written": [[0], [-1]], "over": [[], []]},
        {"written": [[0], [True]], "over": [[], []]},
        {"written": [[0], [1 << 62]], "over": [[], []]},
        {"written": [[0], [0.5]], "over": [[], []]},
        {"written": [[0], [0]], "over": [[], [1]]},
    ],
)
def test_a_section_of_times_in_another_form_is_refused(tmp_path: Path, done: Run, content: dict[str, Any]) -> None:
    path = written(tmp_path / "x", done)
    lines = path.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith('{"section":"times"'))
    lines[at] = json.dumps({"section": "times", "times": content}, separators=(",", ":"))
    path.write_text("\n".join([*lines, ""]))
    with pytest.raises(TraceError, match="section 'times' has a form"):
        read_trace(path).run()


def test_times_of_other_records_are_left_out(tmp_path: Path, done: Run) -> None:
    path = written(tmp_path / "x", done)
    path.write_text(path.read_text().replace('"times":{"written":[[0,', '"times":{"written":[['))
    assert read_trace(path).run().times == ()


@pytest.mark.slow
def test_a_long_run_has_times_of_all_records(tmp_path: Path, done: Run) -> None:
    """Writes more times than another section may have values. The faulty twin claims as many for fewer records."""
    launch, number = next(raw for raw in done.journals[0] if raw[KIND] == "launch"), MOST_VALUES // 3 + 1
    times = ActorTimes(range(number), {at: at + 1 for at in range(number)})
    made = replace(done, journals=[[launch] * number], ends=["finished"], waited_ns=[0], times=(times,))
    path = written(tmp_path / "x", made)
    trace = read_trace(path)
    trace.check()
    assert len(trace.times[0].over) == number
    path.write_bytes(path.read_bytes().replace(b'"over":[[', b'"over":[[' + b"0,0," * MOST_VALUES))
    with pytest.raises(TraceError, match=re.escape('expected {"section":"times"')):
        read_trace(path).check()
