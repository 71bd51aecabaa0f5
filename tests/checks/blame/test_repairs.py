"""Tests which changes of a culprit's calls are tried as repairs, and that the likeliest come first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpsim.checks.blame.repairs import partners, repairs
from dpsim.checks.finding import Culprit, Finding, fact
from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.world import At, Fault, Run, World
from dpsim.sim.backend import SimBackend
from tests.programs import world_of

STEPS = 4


class Exchanges(Program[Any]):
    """In each step all ranks sum, the ranks of even and odd numbers exchange elements in pairs, and gather."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        group, other = rank.host("all"), rank.rank ^ 1
        for rank.step in range(STEPS):
            await group.all_reduce(np.zeros(2, np.int32), site="sum")
            sizes = range(1, 1 + group.size)
            await group.all_gather(np.zeros(1 + rank.rank, np.int32), sizes=sizes, site="gather")
            if rank.rank < other:
                await group.send(np.zeros(3, np.int32), other, site="give")
            else:
                await group.recv(3, "int32", other, site="take")
            await group.all_to_all(
                np.zeros(group.size * (rank.rank + 1), np.int32),
                source_sizes=[rank.rank + 1] * group.size,
                output_sizes=sizes,
                site="share",
            )


def broken(*faults: Fault, ranks: int = 4) -> tuple[World, Run]:
    world = world_of(ranks, ["all"], faults=faults)
    return world, SimBackend().run_program(world, Exchanges(), None)


def finding(rank: int, site: str, klass: str = "HANG:COLLECTIVE:MISSING_RANK", step: int = 2, **more: Any) -> Finding:
    return Finding(
        "ledger", klass, fact("died", rank=rank, step=step), Culprit(rank, step, site, "", **more), (step, 0)
    )


@pytest.mark.parametrize(
    ("site", "call"),
    [
        ("sum", {"op": "all_reduce", "count": 2, "reduce": "sum", "communicator": "all"}),
        ("gather", {"op": "all_gather", "count": 2, "sizes": (1, 2, 3, 4)}),
        ("share", {"op": "all_to_all", "count": 6, "sizes": (2, 0, 2, 2, 1, 0, 3, 4)}),
        ("take", {"op": "recv", "count": 3, "peer": 0}),
    ],
)
def test_a_call_that_was_left_out_is_inserted_as_its_peers_made_it(site: str, call: dict[str, Any]) -> None:
    world, run = broken(Fault("skip", 1, At(site, 2)))
    first = repairs(world, run, finding(1, site))[0]
    assert (first.kind, first.rank) == ("insert", 1)
    assert {name: first.change[name] for name in call} == call
    assert (first.change["site"], first.change["step"], first.change["dtype"]) == (site, 2, "int32")


def test_the_place_of_a_missing_call_is_that_of_the_peers() -> None:
    world, run = broken(Fault("skip", 1, At("sum", 2)))
    assert repairs(world, run, finding(1, "sum"))[0].at == At("gather", 2)


def test_a_call_that_was_made_twice_is_left_out() -> None:
    world, run = broken(Fault("repeat", 1, At("sum", 2)))
    first = repairs(world, run, finding(1, "sum", "HANG:COLLECTIVE:EXTRA_CALL"))[0]
    assert (first.kind, first.at) == ("skip", At("sum", 3))


@pytest.mark.parametrize("change", [{"count": 5}, {"dtype": "int64"}, {"op": "broadcast"}])
def test_an_argument_becomes_that_of_the_peers(change: dict[str, Any]) -> None:
    world, run = broken(Fault("alter", 1, At("sum", 2), change))
    first = repairs(world, run, finding(1, "sum", "MISMATCH:COLLECTIVE:COUNT"))[0]
    assert (first.kind, first.at) == ("alter", At("sum", 2))
    usual = {"count": 2, "dtype": "int32", "op": "all_reduce"}
    assert {name: first.change[name] for name in change} == {name: usual[name] for name in change}


def test_what_a_peer_did_wrong_is_no_repair() -> None:
    """Rank 0 could call with the wrong count as well. It never had this count, so this restores nothing."""
    world, run = broken(Fault("alter", 1, At("sum", 2), {"count": 5}))
    assert not [
        one for one in repairs(world, run, finding(0, "sum", "MISMATCH:COLLECTIVE:COUNT")) if one.kind == "alter"
    ]
    world, run = broken(Fault("alter", 1, At("take", 2), {"count": 5}))
    assert not [
        one for one in repairs(world, run, finding(0, "give", "MISMATCH:TRANSFER:COUNT")) if one.kind == "alter"
    ]
    assert [one for one in repairs(world, run, finding(1, "take", "MISMATCH:TRANSFER:COUNT")) if one.kind == "alter"]


def test_a_call_made_once_in_each_other_step_is_not_left_out() -> None:
    world, run = broken(Fault("skip", 1, At("sum", 2)))
    assert not [one for one in repairs(world, run, finding(0, "sum")) if one.kind == "skip"]


def test_in_the_only_step_nothing_is_known_of_other_steps() -> None:
    world, run = broken(Fault("skip", 1, At("sum", 0)), ranks=2)
    run = replace(run, journals=[[raw for raw in own if raw[1] == 0] for own in run.journals])
    assert [one.at for one in repairs(world, run, finding(0, "sum", step=0)) if one.kind == "skip"] == [At("sum", 0)]


@pytest.mark.parametrize(
    "unsuited",
    [
        finding(1, "sum", "CRASH:VALUEERROR"),
        finding(1, "sum", "RACE:BUFFER"),
        finding(1, "sum", ranks=(1, 2)),
        replace(finding(1, "sum"), culprit=None),
    ],
    ids=["crash", "race", "several", "nobody"],
)
def test_what_no_call_explains_has_no_repair(unsuited: Finding) -> None:
    assert repairs(*broken(Fault("skip", 1, At("sum", 2))), unsuited) == []


@pytest.mark.parametrize("kind", ["die", "raise"])
def test_an_actor_that_stopped_by_itself_has_no_repair(kind: Any) -> None:
    assert repairs(*broken(Fault(kind, 1, At("sum", 2))), finding(1, "sum")) == []


def test_only_the_other_one_of_two_is_a_partner() -> None:
    skip = Fault("skip", 1, At("sum", 2))
    assert partners(*broken(skip), finding(1, "sum")) == []
    others = [one.culprit for one in partners(*broken(skip, ranks=2), finding(1, "sum")) if one.culprit]
    assert {one.rank for one in others} == {0}
    assert others[0].site == "sum"
    transfer = partners(*broken(Fault("skip", 1, At("take", 2))), finding(1, "take"))
    assert {(one.culprit.rank, one.culprit.site) for one in transfer if one.culprit} == {(0, "give")}
