"""Services: actors behind the ranks, with mailboxes and stores, and no communicator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dpsim.checks.judge import judge
from dpsim.interface import Rank
from dpsim.program import Program
from dpsim.sim.backend import SimBackend
from dpsim.world import At, Fault, Run, World
from tests.programs import world_of
from tests.worlds.case import Case
from tests.worlds.explored import missed

NAMES = "broker", "engine.1"


class Served(Program[Any]):
    """Ranks ask the broker for a number each; it gives them in the order in which they ask."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        rank.send(rank.service("broker"), "in", rank.rank, "ask")
        await rank.mailbox("in").get("told")

    async def serve(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        if rank.name == "broker":
            for number in range(rank.service("broker")):
                who = await rank.mailbox("in").get("asked")
                assert isinstance(who, int)
                rank.send(who, "in", number, "tell")
            await self.last(rank)

    async def last(self, rank: Rank) -> None:
        """What the broker does then."""


class Waits(Served):
    async def last(self, rank: Rank) -> None:
        await rank.mailbox("in").get("more")


class WaitsAtAPort(Served):
    async def last(self, rank: Rank) -> None:
        await rank.join_store(0, 7, "join")


class WaitsForAKey(Served):
    async def last(self, rank: Rank) -> None:
        store = await rank.open_store(7, "open")
        assert store is not None
        await store.get("k", "get")


class Fails(Served):
    async def last(self, rank: Rank) -> None:
        raise ValueError("enough")


class Computes(Served):
    async def last(self, rank: Rank) -> None:
        rank.host("dp_cpu")


def world(ranks: int = 2, **more: Any) -> World:
    return replace(world_of(ranks, ["dp_cpu"]), services=NAMES, **more)


def run(program: Program[Any], **more: Any) -> tuple[World, Run]:
    told = world(**more)
    return told, SimBackend().run_program(told, program, None)


def test_services_have_names_and_numbers_behind_the_ranks() -> None:
    told, done = run(Served())
    assert [told.actor(number) for number in range(told.actors)] == ["rank 0", "rank 1", *NAMES]
    assert done.ends == ["finished"] * 4
    assert done.services == NAMES
    assert done.size == 2
    assert judge(told, done) == []


@pytest.mark.parametrize(
    ("program", "klass", "said"),
    [
        (Waits(), "HANG:MAILBOX:NO_MESSAGE", "broker waits for a message in in (more, step 0); 2 were ever sent"),
        (
            WaitsAtAPort(),
            "HANG:STORE:NO_LISTENER",
            "broker waits for somebody to listen at port 7 of node 0 (join, step 0); nobody did; on that node "
            "listened: nobody",
        ),
        (
            WaitsForAKey(),
            "HANG:STORE:NO_VALUE",
            "broker waits for key k at port 7 of node 0 (get, step 0); broker listened there, and nobody set",
        ),
        (Fails(), "CRASH:VALUEERROR", "broker raised ValueError in step 0: enough"),
        (Computes(), "CRASH:KEYERROR", 'broker raised KeyError in step 0: "broker has no'),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Program) else "",
)
def test_what_a_service_does_wrong_is_told_by_its_name(program: Program[Any], klass: str, said: str) -> None:
    told, done = run(program)
    [found] = judge(told, done)
    assert found.klass == klass
    assert found.message.startswith(said)
    assert str(found.culprit).startswith("broker, step 0")


def test_a_stranger_at_the_port_is_named_as_one() -> None:
    from dpsim.world import Stranger

    class Asks(Served):
        async def last(self, rank: Rank) -> None:
            store = await rank.join_store(0, 7, "join")
            assert store is not None
            await store.get("k", "get")

    told, done = run(Asks(), strangers=(Stranger(7),))
    [found] = judge(told, done)
    assert "another program listens there, and nobody set the key" in found.message


def test_a_service_can_die_and_be_missed() -> None:
    told, done = run(Served(), faults=(Fault("die", 2, At("asked", 1)),))
    assert done.ends == ["finished", "blocked", "died", "finished"]
    assert [finding.klass for finding in judge(told, done)] == ["HANG:MAILBOX:NO_MESSAGE"]


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_dpor_sees_what_all_schedules_show(ranks: int) -> None:
    assert missed(Case("served", world(ranks), Served())) == (0, 0, 0)


def test_a_program_that_names_services_and_has_no_serve_is_told_so() -> None:
    class Silent(Program[Any]):
        async def run(self, rank: Rank, prepared: Any) -> None:
            return

    told, done = run(Silent())
    assert "names services and has no `serve`" in judge(told, done)[0].message
