"""Tests services: actors with numbers after the ranks, with mailboxes, stores and host communicators."""

from __future__ import annotations

import re
import signal
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpsim.backend.journal.whereabouts import whereabouts
from dpsim.contract.interface import Rank
from dpsim.contract.ops import DECISION_VALUE, KIND, Domain
from dpsim.contract.program import Program
from dpsim.contract.world import At, CommunicatorSpec, Fault, Run, Unended, World
from dpsim.sim.backend import SimBackend
from dpsim.sim.hosts import watch
from tests.judged import judge
from tests.programs import world_of
from tests.records import raw
from tests.sim.test_own_raise import handled
from tests.worlds.case import Case
from tests.worlds.explored import missed

NAMES = "broker", "engine.1"


class Served(Program[Any]):
    """Each rank asks the broker for a number; the broker answers in the order of the requests."""

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
        """What the broker does after all answers; nothing here."""


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


class Meets(Served):
    """The services meet in a communicator, and the services in `meets` also meet the ranks."""

    meets: tuple[str, ...] = NAMES

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        await rank.host("all").barrier(site="all")

    async def serve(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        got = await rank.host("engines").all_reduce(np.array([rank.rank], np.int32), site="sync")
        rank.decide("sum", got.tolist()[0], "engines")
        if rank.name in self.meets:
            await rank.host("all").barrier(site="all")


class LeavesEarly(Meets):
    meets = ("broker",)


class Fails(Served):
    async def last(self, rank: Rank) -> None:
        raise ValueError("enough")


class Computes(Served):
    async def last(self, rank: Rank) -> None:
        rank.host("dp_cpu")


class Interrupted(Served):
    """The user presses Ctrl-C while the ranks wait for the broker."""

    async def serve(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        rank.probe("awake")
        if rank.name == "broker":
            await rank.sleep(1_000, "nap")
            signal.raise_signal(signal.SIGINT)


class Endless(Served):
    """The broker makes progress without end."""

    async def serve(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        while rank.name == "broker":
            rank.send(0, "in", 0, "tell")


def world(ranks: int = 2, **more: Any) -> World:
    return replace(world_of(ranks, ["dp_cpu"]), services=NAMES, **more)


def run(program: Program[Any], **more: Any) -> tuple[World, Run]:
    told = world(**more)
    return told, SimBackend().run_program(told, program, None)


def test_the_list_of_an_interrupted_run_names_services() -> None:
    with handled(signal.default_int_handler), pytest.raises(KeyboardInterrupt) as caught:
        run(Interrupted())
    [note] = caught.value.__notes__
    assert "\nbroker in step 0: " in note
    assert "\nengine.1 ended" in note
    assert "rank 2" not in note
    journals = [[raw("probe", "awake")]] * 4
    assert whereabouts(journals, services=NAMES).startswith("ranks 0, 1, broker, engine.1 in step 0: ")
    assert whereabouts(journals).startswith("ranks 0 to 3 in step 0: "), "the twin: without their names"


def test_a_run_that_its_bound_ends_names_services(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "MOST_RECORDS", 1_000)
    with pytest.raises(Unended) as caught:
        run(Endless())
    assert "\nbroker in step 0: send 0 " in str(caught.value)
    assert "rank 2" not in str(caught.value)


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
            "broker waits for a listener at port 7 of node 0 (join, step 0); no rank did; on that node "
            "listened: no rank",
        ),
        (
            WaitsForAKey(),
            "HANG:STORE:NO_VALUE",
            "broker waits for key k, which no rank sets (get, step 0); broker listened at port 7 of node 0",
        ),
        (Fails(), "CRASH:VALUEERROR", "broker raised ValueError in step 0: enough"),
        (Computes(), "CRASH:KEYERROR", 'broker raised KeyError in step 0: "broker has no'),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Program) else "",
)
def test_the_mistake_of_a_service_is_reported_by_name(program: Program[Any], klass: str, said: str) -> None:
    told, done = run(program)
    [found] = judge(told, done)
    assert found.klass == klass
    assert found.message.startswith(said)
    assert (found.culprit is None) == isinstance(program, Waits | WaitsForAKey)  # a rank may owe the message or key
    assert found.culprit is None or str(found.culprit).startswith("broker, step 0")


def test_a_stranger_at_the_port_is_named_as_one() -> None:
    from dpsim.contract.world import Stranger

    class Asks(Served):
        async def last(self, rank: Rank) -> None:
            store = await rank.join_store(0, 7, "join")
            assert store is not None
            await store.get("k", "get")

    told, done = run(Asks(), strangers=(Stranger(7),))
    [found] = judge(told, done)
    assert "which no rank sets (get, step 0); another program listens at port" in found.message


def test_a_service_can_die_and_be_missed() -> None:
    told, done = run(Served(), faults=(Fault("die", 2, At("asked", 1)),))
    assert done.ends == ["finished", "blocked", "died", "finished"]
    assert [finding.klass for finding in judge(told, done)] == ["HANG:MAILBOX:DEAD_RANK"]


def meeting(program: Program[Any]) -> tuple[World, Run]:
    groups = (
        CommunicatorSpec("engines", "engines", "host", (2, 3)),
        CommunicatorSpec("all", "all", "host", (0, 1, 2, 3)),
    )
    told = World(2, groups, services=NAMES)
    return told, SimBackend().run_program(told, program, None)


def test_services_meet_in_communicators_of_hosts() -> None:
    told, done = meeting(Meets())
    assert done.finished
    assert judge(told, done) == []
    sums = [raw for journal in done.journals for raw in journal if raw[KIND] == "decision"]
    assert [raw[DECISION_VALUE] for raw in sums] == [5, 5]


def test_a_service_that_skips_a_collective_is_blamed() -> None:
    told, done = meeting(LeavesEarly())
    found, *_ = judge(told, done)
    assert found.klass == "HANG:COLLECTIVE:MISSING_RANK"
    assert str(found.culprit).startswith("engine.1, step 0")


@pytest.mark.parametrize(
    ("domain", "members", "said"),
    [
        ("device", (1, 2), "g has members (1, 2); there are 2 ranks, as services have no device"),
        ("host", (1, 4), "g has members (1, 4); there are 4 ranks and services"),
    ],
)
def test_members_that_no_communicator_can_have_are_refused(domain: Domain, members: tuple[int, ...], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        World(2, (CommunicatorSpec("g", "g", domain, members),), services=NAMES)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_dpor_sees_what_all_schedules_show(ranks: int) -> None:
    assert missed(Case("served", world(ranks), Served())) == (0, 0, 0)


def test_services_need_a_serve_method() -> None:
    class Silent(Program[Any]):
        async def run(self, rank: Rank, prepared: Any) -> None:
            return

    told, done = run(Silent())
    assert "names services and has no `serve`" in judge(told, done)[0].message
