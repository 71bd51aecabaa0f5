"""Tests that each start comes up, or that all participants fail in bounded time and the front end reports why.

The causes of failures are occupied ports, and late or missing participants. If the outcome depends only on order, the
tests explore all schedules. A late participant depends on time-outs, so these worlds run once with simulated time.
Faulty twins break the property: a front end that serves without waiting, and a worker that does not report its end.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.vllm.startup.conversation import Parent
from dpsim.vllm.startup.frontend import FrontEnd
from dpsim.vllm.startup.layout import READY_NS
from dpsim.vllm.startup.participant import Participant
from tests.properties import nightly_but
from tests.vllm.startup.worlds import addresses, explored, run, start

PORTS: list[list[int]] = [[]]
MORE_PORTS = [[20004], [20003], [29550], [20004, 20003], [20001, 20002, 20003, 20004, 20005]]


@pytest.mark.parametrize("form", ["0.33", "0.14"])
@pytest.mark.parametrize("late", [False, True], ids=["from the start", "late"])
@pytest.mark.parametrize("ports", [*PORTS, *nightly_but(MORE_PORTS, lambda ports: len(ports) == 1)], ids=str)
def test_a_start_with_taken_ports_comes_up_or_fails_as_its_form(form: str, late: bool, ports: list[int]) -> None:
    """With occupied ports, form 0.33 always comes up. Form 0.14 fails if a port of its list is occupied from the start.

    If another program occupies the port later, form 0.14 comes up in some schedules. Known limit: five programs that
    may appear at any time have too many schedules, so that case is sampled.
    """
    result, seen = explored(start(form, ports=[] if late else ports, late=ports if late else []), 2_500)
    assert result.verdict in ("proven", "sampled" if late and len(ports) == 5 else "proven")
    came_up = {one.up for one in seen}
    if form == "0.33" or ports in ([], [29550]):
        assert came_up == {True}
    else:
        assert False in came_up
        assert came_up == ({True, False} if late else {False})


def test_the_port_of_the_front_end_is_given_where_there_are_several_nodes() -> None:
    _, seen = explored(start(dp=2, config={"nnodes": 2}, ports=[29550]), 300)
    assert {one.up for one in seen} == {False}
    failed = next(one for one in seen if not one.up)
    assert "PortTaken: frontend cannot listen at port 29550" in failed.errors["frontend"]


@pytest.mark.parametrize("form", ["0.33", "0.14"])
@pytest.mark.parametrize(
    "sizes",
    [
        {"dp": 1},
        {"dp": 1, "tp": 2},
        {"dp": 1, "pp": 2},
        pytest.param({"dp": 3}, marks=pytest.mark.slow),
        {"dp": 2, "tp": 2},
        {"dp": 2, "pp": 2},
        {"dp": 2, "config": {"nnodes": 2}},
        pytest.param({"dp": 4}, marks=pytest.mark.slow),
        pytest.param({"dp": 4, "config": {"data_parallel_size_local": 2}}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_worlds_of_one_to_four_ranks_come_up_in_every_schedule(form: str, sizes: dict[str, Any]) -> None:
    result, seen = explored(start(form, **sizes))
    assert result.verdict == "proven"
    assert all(one.up for one in seen)


@pytest.mark.parametrize("dp", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("who", ["frontend", "coordinator", "engine.0", "engine.1", 0, 1])
@pytest.mark.parametrize("form", ["0.33", "0.14"])
def test_all_ranks_wait_for_a_rank_that_dies_at_start(form: str, who: str | int, dp: int) -> None:
    first = "data_parallel_rpc_port.open" if who == "frontend" else "spawned"
    fault = {"kind": "die", "rank": who, "at": {"site": first, "ordinal": 0}}
    result, seen = explored(start(form, dp=dp, faults=[fault]), 1_000)
    assert result.verdict in ("proven", "bounded", "sampled")
    assert not any(one.serving for one in seen)


@pytest.mark.parametrize("who", ["frontend", "coordinator", "engine.0", "engine.1", 0, 1])
@pytest.mark.parametrize(("by", "up"), [("5s", True), ("2000s", False)])
def test_a_late_participant_is_waited_for_while_there_is_time(who: str | int, by: str, up: bool) -> None:
    seen = run(start(delays=[{"rank": who, "by": by}]))
    assert seen.wrong() == []
    assert seen.up == (up or who == "frontend")  # no participant waits before the first front end starts
    assert seen.run.elapsed_ns <= 2 * READY_NS


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 12))])
def test_a_death_anywhere_ends_all_but_workers_in_collectives(part: int) -> None:
    """After a death, only a worker in a collective with the dead peer may block, and an engine that supervises it.

    `participant.py` documents this limit of `startup`.
    """
    everywhere = list(addresses(run(start())))[part::12]
    assert len(everywhere) > 5
    for who, site, ordinal in everywhere:
        seen = run(start(faults=[{"kind": "die", "rank": who, "at": {"site": site, "ordinal": ordinal}}]))
        assert seen.ended("died"), (who, site, ordinal)
        blocked = set(seen.ended("blocked"))
        assert blocked <= {"rank 0", "rank 1", "engine.0", "engine.1"}, (who, site, ordinal)
        served = "frontend" in seen.serving
        assert served or not seen.serving, (who, site, ordinal)
        waits_for_start = {name for name in blocked if name.startswith("engine")}
        assert not waits_for_start or served, (who, site, ordinal)
        assert seen.run.elapsed_ns <= 2 * READY_NS


@pytest.mark.parametrize("form", ["0.33", "0.14"])
def test_a_start_that_fails_ends_the_front_ends_of_other_nodes_at_once(form: str) -> None:
    """If the start fails on one node, the front ends of other nodes stop within seconds, without an error."""
    seen = run(start(form, config={"nnodes": 2}, config_by_rank={1: {"enable_dbo": True}}))
    assert seen.wrong() == []
    assert list(seen.errors) == ["frontend"]
    assert "frontend.1" in seen.gave_up
    assert seen.run.elapsed_ns < 5_000_000_000


@pytest.mark.parametrize("form", ["0.33", "0.14"])
def test_an_engine_does_not_wait_endlessly_for_a_stranger(form: str) -> None:
    seen = run(start(form, config={"nnodes": 2}, ports=[29550]))
    assert seen.wrong() == []
    assert "frontend cannot listen at port 29550" in seen.errors["frontend"]
    assert "at port 29550 of node 0; another program listens there" in seen.errors["engine.1"]
    assert seen.run.elapsed_ns <= READY_NS


# ---- twins


@pytest.mark.parametrize(
    ("program", "sizes"),
    [
        ("startup", {"dp": 1, "tp": 2}),
        pytest.param("startup", {"dp": 2}, marks=pytest.mark.nightly),
        pytest.param("startup_watched", {"dp": 1, "tp": 2}, marks=pytest.mark.nightly),
        pytest.param("startup_watched", {"dp": 2}, marks=pytest.mark.nightly),
    ],
)
def test_if_a_time_out_passes_early_all_serve_or_all_end(program: str, sizes: dict[str, Any]) -> None:
    result, seen = explored(start(program=program, limits={"early_timeouts": 1}, **sizes), 60, "random")
    assert (list(result.failures), {one.up for one in seen}) == ([], {True, False})


def test_a_front_end_that_does_not_wait_for_ready_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    receive_all = Parent.receive_all

    async def hasty(self: Parent, children: Any, doing: str, timeout_ns: int) -> Any:
        return [] if doing == "ready" else await receive_all(self, children, doing, timeout_ns)

    monkeypatch.setattr(Parent, "receive_all", hasty)
    monkeypatch.setattr(FrontEnd, "check_ready", lambda self, ready: None)
    result, _ = explored(start("0.14", ports=[20004]), 200)
    assert result.verdict == "violated"


def test_a_participant_that_does_not_leave_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faulty twin: a failed participant does not close its stores, so its children wait for it without end."""
    monkeypatch.setattr(Participant, "leave", lambda self: None)
    monkeypatch.setattr("dpsim.sim.services.ports.Ports.left", lambda self, host, after: None)
    result, _ = explored(start(config_by_rank={1: {"enable_dbo": True}}), 200)
    assert result.verdict == "violated"
    result, _ = explored(start(dp=1, tp=2, limits={"early_timeouts": 1}), 60, "random")
    assert result.verdict == "violated"
