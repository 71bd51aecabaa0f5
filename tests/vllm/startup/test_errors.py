"""Tests the error of a start that fails: which participant is missing, where it should be, and what blocks it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.vllm.startup.worlds import run, start

FIELDS: dict[str, Any] = {"pieces": {"compared": "fields"}}
TWO_NODES = {"nnodes": 2}


def died(who: str, site: str) -> dict[str, Any]:
    return {"faults": [{"kind": "die", "rank": who, "at": {"site": site, "ordinal": 0}}]}


@pytest.mark.parametrize(
    ("what", "who", "said"),
    [
        pytest.param(
            {"form": "0.14", "ports": [20004]},
            "engine.0",
            "waited 100 s for engine.1 in engine_dp_group at port 20003 (members); the others connect to port 20004, "
            "where another program listens. End that program; engine.0 had to use port 20003",
            id="a listed port is taken",
        ),
        pytest.param(
            {"form": "0.14", "ports": [20004, 20003]},
            "engine.0",
            "to port 20004, where another program listens. End that program; engine.0 had to use port 20002",
            id="two are",
        ),
        pytest.param(
            {"form": "0.14", **died("engine.1", "say.members")},
            "engine.0",
            "waited 100 s for engine.1 in engine_dp_group at port 20004 (members); it is late, has died",
            id="twin: no port is taken",
        ),
        pytest.param(
            {"dp": 3, **died("engine.1", "subscribe")},
            "engine.2",
            "waited 900 s for engine.1 to subscribe",
            id="one does not subscribe",
        ),
        pytest.param(
            {"config": TWO_NODES, "config_by_rank": {1: {"enable_dbo": True}}, **FIELDS},
            "frontend",
            "than the front end: engine.1 of node 1 (started by frontend.1): enable_dbo: true there, false here",
            id="a node has other settings",
        ),
        pytest.param(
            {"config_by_rank": {1: {"enable_dbo": True}}, **FIELDS},
            "frontend",
            "than the front end: engine.1: enable_dbo: true there, false here",
            id="twin: one node",
        ),
        pytest.param(
            {"config": TWO_NODES, **died("frontend.1", "spawn.engine.1")},
            "frontend",
            "waited 300 s for engine.1 of node 1 (started by frontend.1) (hello)",
            id="the front end of a node is dead",
        ),
    ],
)
def test_each_failed_start_names_the_participant_and_the_reason(what: dict[str, Any], who: str, said: str) -> None:
    assert said in run(start(**what)).errors[who]
