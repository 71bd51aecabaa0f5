"""Tests of trace events for Perfetto: one for each op, one for its wait, and a flow between the parts of a
collective.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from dpsim.diagnose.pictures.of_run import picture_of_run
from dpsim.diagnose.pictures.perfetto import trace_events
from tests.checks.handmade import Made


def events(*ends: Any, ranks: int = 2) -> list[dict[str, Any]]:
    made = Made(2)
    for rank in range(ranks):
        made[rank].launch("early", "main")
        made[rank].collective("dp", "main")
    found: list[dict[str, Any]] = trace_events(picture_of_run(made.world, made.run(*ends), (), "x"))["traceEvents"]
    return found


def test_ops_and_flows() -> None:
    found = events()
    whole = [(one["pid"], one["name"], one["ts"], one["dur"]) for one in found if one["ph"] == "X"]
    assert whole == [(rank, *op) for rank in (0, 1) for op in (("early", 0, 1), ("dp.all_reduce", 1, 1))]
    flows = defaultdict(list)
    for one in found:
        if one["ph"] in "stf":
            flows[one["id"]].append((one["ph"], one["pid"]))
    assert [*flows.values()] == [[("s", 0), ("f", 1)]]


def test_an_op_that_never_ends_and_the_missing_one() -> None:
    found = events("blocked", "finished", ranks=1)
    names = {(one["pid"], one["name"]): one["dur"] for one in found if one["ph"] == "X"}
    assert names[0, "waits: waits for rank 1"] == names[0, "dp.all_reduce"] > 1
    assert (1, "MISSING dp.all_reduce[0]") in names
