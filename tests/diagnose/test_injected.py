"""Tests of messages about faults and delays that never happened: they name a rank or service and its sites."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.ops import CALL, KIND
from dpsim.contract.world import At, Fault
from dpsim.diagnose.injected import SHOWN, never_applied
from dpsim.runner import run_scenario
from tests.programs import run, world_of
from tests.protocols import served


def said(**planted: Any) -> str:
    [line] = run_scenario(served(1, **planted)).never_applied
    return line


@pytest.mark.parametrize(
    ("planted", "line"),
    [
        (
            {"delays": [{"rank": "engine.0", "by": "1ms", "at": {"site": "say.redy"}}]},
            "delay: engine.0 never reached say.redy; did you mean say.ready?",
        ),
        (
            {"faults": [{"kind": "die", "rank": "engine.0", "at": {"site": "say.ready", "ordinal": 3}}]},
            "die: engine.0 never reached say.ready[3]; its last visit was say.ready[0]",
        ),
        (
            {"faults": [{"kind": "skip", "rank": "engine.0", "at": {"site": "say.ready", "ordinal": 0}}]},
            "skip: engine.0 reached say.ready[0], but there it changes nothing",
        ),
        (
            {"delays": [{"rank": "engine.0", "by": "1ms", "at": {"thread": "other"}}]},
            "delay: engine.0 has no host thread 'other'; it has main",
        ),
        (
            {"faults": [{"kind": "kill", "rank": "frontend", "at": {"site": "hear.hello", "ordinal": 9}}]},
            "kill: frontend never reached hear.hello[9]; its last visit was hear.hello[0]",
        ),
        (
            {"faults": [{"kind": "kill", "rank": "frontend", "time": "1h"}]},
            "kill: frontend had ended before it died",
        ),
    ],
)
def test_a_service_is_named(planted: dict[str, Any], line: str) -> None:
    assert said(**planted) == line


def test_the_sites_of_a_service_are_named_where_none_is_near() -> None:
    line = said(delays=[{"rank": "frontend", "by": "1ms", "at": {"site": "xyz"}}])
    assert line == "delay: frontend never reached xyz; its sites: call.engine, hear.answer, hear.hello"


def test_the_first_of_many_sites_are_reported() -> None:
    line = said(delays=[{"rank": 0, "by": "1ms", "at": {"site": "xyz"}}])
    sites = line.partition("its sites: ")[2].split(", ")
    assert len(sites) <= SHOWN + 1
    assert sites[-1].endswith(" more") == (len(sites) > SHOWN)


async def exchange(rank: Rank) -> None:
    """Calls an all_to_all with sizes, and one without."""
    group = rank.host("h")
    await group.all_to_all(np.ones(2, np.int32), source_sizes=(1, 1), output_sizes=(1, 1), site="sized")
    await group.all_to_all(np.ones(2, np.int32), site="equal")


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("at", [At("sized", 0), At(communicator="h", seq=0)])
def test_a_count_changes_nothing_where_sizes_rule(count: int, at: At) -> None:
    healthy = run(world_of(2, ["h"]), exchange)
    world = world_of(2, ["h"], faults=(Fault("alter", 1, at, {"count": count}),))
    done = run(world, exchange)
    assert done.journals == healthy.journals
    assert never_applied(world, done) == [
        f"alter count to {count}: rank 1 reached {at}, "
        "but a count changes nothing where sizes say what moves: [1, 1, 1, 1]"
    ]


def test_a_count_rules_where_there_are_no_sizes() -> None:
    """The twin: a changed count at a call without sizes, and a changed dtype at a call with sizes, do have an
    effect.
    """
    for at, change in ((At("equal", 0), {"count": 4}), (At("sized", 0), {"dtype": "int64"})):
        world = world_of(2, ["h"], faults=(Fault("alter", 1, at, change),))
        done = run(world, exchange)
        calls = [raw[CALL] for raw in done.journals[1] if raw[KIND] == "collective"]
        assert not never_applied(world, done)
        assert calls != [raw[CALL] for raw in done.journals[0] if raw[KIND] == "collective"]


@pytest.mark.parametrize(
    ("at", "line"),
    [
        (At("sum", 9), "insert all_reduce on all: rank 1 never reached sum[9]; its last visit was sum[0]"),
        (At("summ", 0), "insert all_reduce on all: rank 1 never reached summ[0]; did you mean sum?"),
        (At("sum", 0), None),
        (At("end", 0), None),
    ],
    ids=str,
)
def test_the_message_about_a_call_that_was_not_inserted(at: At, line: str | None) -> None:
    async def sums(rank: Rank) -> None:
        await rank.host("all").all_reduce(np.zeros(1, np.int32), site="sum")

    call = {"site": "sum", "communicator": "all", "op": "all_reduce", "count": 1, "dtype": "int32", "reduce": "sum"}
    world = world_of(2, ["all"], faults=(Fault("insert", 1, at, call),))
    assert never_applied(world, run(world, sums)) == ([] if line is None else [line])
