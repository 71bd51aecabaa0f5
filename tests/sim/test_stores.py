"""Tests stores. A rank that joins a port connects to its listener, and a get returns the last value. A time-out passes
only when nothing else can happen.

The tests compare small worlds with all their schedules. DPOR finds each outcome, and each class of schedules once.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from dpsim.contract.interface import Rank, Store
from dpsim.contract.program import Program
from dpsim.contract.world import Kill, Stranger, World
from dpsim.sim.services.waiting import Waiting
from tests.programs import world_of
from tests.properties import nightly_but
from tests.sim.programs import Twins, everywhere, see, usual_world
from tests.worlds.brute import enumerate_schedules
from tests.worlds.case import Case
from tests.worlds.explored import missed

SECOND = 1_000_000_000

twins = Twins()


async def joined(rank: Rank, port: int = 5, timeout_ns: int = SECOND) -> Store | None:
    return await rank.join_store(0, port, "join", timeout_ns=timeout_ns)


@twins("CRASH:ASSERTIONERROR", learned=["here", "here"])
async def a_value_that_is_set_is_learned(rank: Rank, right: bool) -> Any:
    """A get returns the value that a rank set. In the faulty twin the rank sets another key."""
    store = await rank.open_store(5, "open") if rank.rank == 0 else await joined(rank)
    assert store is not None
    if rank.rank == 0:
        store.set("k" if right else "l", "here", "set")
    value = await store.get("k", "get", timeout_ns=SECOND)
    assert value is not None
    return value


@twins("CRASH:ASSERTIONERROR", learned=[5, 6])
async def one_port_has_one_listener(rank: Rank, right: bool) -> Any:
    """Two ranks of a node listen at two ports. In the faulty twin both want the same port."""
    store = await rank.open_store(5 + rank.rank * right, "open")
    assert store is not None
    return store.port


@twins("CRASH:ASSERTIONERROR", learned=[True, True])
async def any_port_is_a_free_one(rank: Rank, right: bool) -> Any:
    """Port 0 requests any free port. In the faulty twin the rank asks for the port that it already has."""
    first = await rank.open_store(0, "open")
    assert first is not None
    again = await rank.open_store(0 if right else first.port, "again")
    assert again is not None
    return again.port != first.port


@twins("CRASH:RUNTIMEERROR", learned=[5])
async def a_store_that_was_left_is_of_no_use(rank: Rank, right: bool) -> Any:
    store = await rank.open_store(5, "open")
    assert store is not None
    if right:
        store.set("k", 1, "set")
    store.close("close")
    if not right:
        store.set("k", 1, "set")
    return store.port


@twins("CRASH:ASSERTIONERROR", learned=[None, 2])
async def values_of_one_rank_arrive_in_order(rank: Rank, right: bool) -> Any:
    """A rank sets a value, and then a key that tells the other rank to read it. In the faulty twin it sets the value
    too late.
    """
    if rank.rank == 0:
        store = await rank.open_store(5, "open")
        assert store is not None
        store.set("value", 1, "set")
        for key, number in (("value", 2), ("flag", 1)) if right else (("flag", 1), ("value", 1)):
            store.set(key, number, "set")
        return None
    found = await joined(rank)
    assert found is not None
    await found.get("flag", "wait", timeout_ns=SECOND)
    told = await found.get("value", "get", timeout_ns=SECOND)
    assert told == 2
    return told


@twins("CRASH:ASSERTIONERROR", learned=["gone", "gone"])
async def a_closed_listener_ends_a_get(rank: Rank, right: bool) -> Any:
    """A get without a time-out returns when the listener closes. In the faulty twin no rank closes the store, so only
    the time-out of the get passes.
    """
    if rank.rank == 0:
        store = await rank.open_store(5, "open")
        assert store is not None
        await rank.mailbox("in").get("hear")
        if right:
            store.close("close")
        return "gone"
    found = await joined(rank)
    assert found is not None
    rank.send(0, "in", 1, "tell")
    value = await found.get("never", "get", timeout_ns=None if right else SECOND)
    assert value is None
    assert right, "the get returns None since its time-out passed"
    return "gone"


test_the_healthy_program_holds, test_the_wrong_twin_is_caught = twins.tests()


def test_a_store_of_a_stranger_is_joined_and_has_no_keys() -> None:
    async def script(rank: Rank) -> Any:
        taken = await rank.open_store(5, "open")
        store = await joined(rank)
        assert store is not None
        return taken is None, await store.get("k", "get", timeout_ns=SECOND)

    for seen in everywhere(script, usual_world(1, strangers=(Stranger(5),))):
        assert seen.learned == [(True, None)]


def test_a_rank_that_left_its_port_joins_it_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin reads the port before the close, which is another op, has happened."""

    async def script(rank: Rank) -> Any:
        store = await rank.open_store(5, "open")
        assert store is not None
        store.close("close")
        return await joined(rank, timeout_ns=SECOND) is None

    def seen() -> list[Any]:
        return [one.learned for one in everywhere(script, usual_world(1))]

    assert all(learned == [True] for learned in seen())
    look = Waiting.look
    monkeypatch.setattr(Waiting, "look", lambda self, see, touches, *after: look(self, see, touches, *after[:1]))
    assert [False] in seen()


def test_a_time_out_passes_only_when_nothing_else_can_happen() -> None:
    """The get of a key that arrives returns the value; only the get of a missing key waits for its time-out."""

    async def script(rank: Rank) -> Any:
        if rank.rank == 0:
            store = await rank.open_store(5, "open")
            assert store is not None
            store.set("k", 1, "set")
            return None
        store = await joined(rank, timeout_ns=SECOND)
        assert store is not None
        return await store.get("k", "get", timeout_ns=SECOND), await store.get("l", "vain", timeout_ns=SECOND)

    for seen in everywhere(script):
        assert seen.learned == [None, (1, None)]
        assert seen.run.elapsed_ns < 2 * SECOND


def test_a_timed_run_ends_when_all_is_done_and_not_when_a_time_out_would_have_been() -> None:
    async def script(rank: Rank) -> Any:
        if rank.rank == 0:
            await rank.open_store(5, "open")
            return None
        return (await joined(rank, timeout_ns=3600 * SECOND)) is not None

    seen = see(script)
    assert seen.learned == [None, True]
    assert seen.run.elapsed_ns < SECOND


def test_a_late_rank_is_waited_for_until_the_time_is_up() -> None:
    async def script(rank: Rank, late_ns: int) -> Any:
        if rank.rank == 0:
            await rank.sleep(late_ns, "late")
            await rank.open_store(5, "open")
            return None
        return (await joined(rank)) is not None

    for late_ns, found in (SECOND // 2, True), (2 * SECOND, False):
        assert see(partial(script, late_ns=late_ns)).learned == [None, found]


# ---- all schedules


class Table(Program[Any]):
    """Each rank does a list of actions. Its journal contains what it learned."""

    def __init__(self, *scripts: Sequence[tuple[Any, ...]]) -> None:
        self.scripts = scripts

    async def run(self, rank: Rank, prepared: Any) -> None:
        stores: list[Store] = []
        for what, *more in self.scripts[rank.rank]:
            if what == "tell":
                rank.send(more[0], "in", rank.rank, "tell")
            elif what == "hear":
                await rank.mailbox("in").get("hear")
            elif what in ("open", "join"):
                found = await (
                    rank.open_store(more[0], "open")
                    if what == "open"
                    else rank.join_store(0, more[0], "join", timeout_ns=more[1])
                )
                if found is not None:
                    stores.append(found)
            elif stores:
                store = stores[-1]
                if what == "set":
                    store.set(more[0], more[1], "set")
                elif what == "get":
                    await store.get(more[0], "get", timeout_ns=more[1])
                else:
                    stores.pop().close("close")


def case(name: str, *scripts: Sequence[tuple[Any, ...]], **more: Any) -> Case:
    return Case(name, world_of(len(scripts), **more), Table(*scripts))


LISTEN = [("open", 5), ("set", "k", 1)]
CASES = [
    case("a value", LISTEN, [("join", 5, 10), ("get", "k", 10)]),
    case("two values", [*LISTEN, ("set", "k", 2)], [("join", 5, 10), ("get", "k", 10)]),
    case("two writers", LISTEN, [("join", 5, 10), ("set", "k", 2), ("get", "k", 10)]),
    case("who listens leaves", [*LISTEN, ("close",)], [("join", 5, 10), ("get", "k", 10)]),
    case("it comes again", [*LISTEN, ("close",), *LISTEN], [("join", 5, 10), ("get", "k", 10)]),
    case("two want a port", LISTEN, [("open", 5), ("set", "k", 2)], [("join", 5, 10), ("get", "k", 10)]),
    case("a stranger comes", LISTEN, [("join", 5, 10), ("get", "k", 10)], strangers=(Stranger(5, late=True),)),
    case("a look at a value", LISTEN, [("join", 5, 10), ("get", "k", 0), ("get", "k", 10)]),
    case("a look at two values", [*LISTEN, ("set", "k", 2)], [("join", 5, 10), ("get", "k", 0), ("set", "k", 3)]),
    case("a look who listens", LISTEN, [("join", 5, 0), ("join", 5, 10), ("get", "k", 10)]),
    case("a look before it comes again", [*LISTEN, ("close",), *LISTEN], [("join", 5, 0), ("get", "k", 0)]),
    case("a look who listens dies", LISTEN, [("join", 5, 0), ("get", "k", 0), ("get", "k", 10)], kills=(Kill(1),)),
    case("a look at the dead", LISTEN, [("join", 5, 0), ("get", "k", 0), ("join", 5, 0)], kills=(Kill(0),)),
    case("two wait in vain", [("join", 5, 10), ("open", 6)], [("join", 6, 10), ("open", 5)]),
    case("a short and a long one", [("join", 5, 10), ("open", 6)], [("join", 6, 20), ("open", 5)]),
    case("three in vain", *[[("join", 5, 10), ("open", 5), ("close",)]] * 3),
    case("a death", LISTEN, [("join", 5, 10), ("get", "k", 10)], kills=(Kill(0),)),
    case("a death or the time", [("hear",)], [("join", 5, 10), ("tell", 0)], kills=(Kill(1),)),
    case("who waits dies", [("open", 5)], [("join", 5, 10), ("get", "k", 10), ("open", 6)], kills=(Kill(1),)),
]


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.name)
def test_dpor_sees_what_all_schedules_show(one: Case) -> None:
    assert missed(one) == (0, 0, 0)


ACTS: list[tuple[Any, ...]] = [
    *(("open", 5), ("open", 6), ("join", 5, 10), ("join", 6, 10), ("join", 5, 20)),
    *(("set", "k", 1), ("set", "k", 2), ("get", "k", 10), ("get", "l", 10), ("set", "l", 3), ("close",)),
    *(("get", "k", 0), ("join", 5, 0)),
]


def drawn(seed: int) -> Case:
    """Draws two or three ranks with a few actions each; perhaps a stranger at the port, or a rank that may die."""
    pick = random.Random(seed)
    ranks = pick.choice((2, 2, 3))
    scripts = [[pick.choice(ACTS) for _ in range(pick.randint(1, 6 - ranks))] for _ in range(ranks)]
    world: dict[str, Any] = {}
    if pick.random() < 0.2:
        world["strangers"] = (Stranger(5, late=pick.random() < 0.7),)
    if pick.random() < 0.2:
        world["kills"] = (Kill(pick.randrange(ranks)),)
    return case(f"drawn {seed}", *scripts, **world)


@pytest.mark.parametrize("first", [0, *nightly_but(range(40, 2_000, 40), lambda first: first < 600)])
def test_dpor_sees_what_all_schedules_of_random_programs_show(first: int) -> None:
    for seed in range(first, first + 40):
        one = drawn(seed)
        if enumerate_schedules(one, 1_500).complete:
            outcomes, classes, twice = missed(one)
            # A kill may remove a time-out. DPOR then orders the death before the next time-out, which need not be. So
            # it may miss classes, but no outcome.
            assert (outcomes, classes * (not one.world.kills), twice) == (0, 0, 0), one


def test_a_call_with_time_out_0_may_return_before_the_value_is_set() -> None:
    """Calls with time-out 0 may return None or the value, like a poll. In a timed run, a rank that repeats them gets
    its value.
    """

    class Looks(Program[Any]):
        async def run(self, rank: Rank, prepared: Any) -> None:
            if rank.rank == 0:
                store = await rank.open_store(5, "open")
                assert store is not None
                return store.set("k", 1, "set")
            joined = await rank.join_store(0, 5, "join", timeout_ns=0)
            told = None if joined is None else await joined.get("k", "get", timeout_ns=0)
            assert self.never != (joined is not None, told)

        def __init__(self, never: tuple[bool, int | None]) -> None:
            self.never = never

    for never in (False, None), (True, None), (True, 1):
        assert enumerate_schedules(Case("looks", world_of(2), Looks(never))).failing, never

    async def again(rank: Rank) -> Any:
        if rank.rank == 0:
            await rank.sleep(SECOND, "late")
            store = await rank.open_store(5, "open")
            assert store is not None
            await rank.sleep(SECOND, "late")
            return store.set("k", 1, "set")
        while (joined := await rank.join_store(0, 5, "join", timeout_ns=0)) is None:
            await rank.sleep(SECOND // 10, "nap")
        while (told := await joined.get("k", "get", timeout_ns=0)) is None:
            pass
        return told

    assert see(again).learned == [None, 1]


def test_ops_without_a_conflict_are_one_class() -> None:
    """A value set once is one class of schedules, whether the get comes early or late. A second value makes two
    classes.
    """

    def classes(one: Case) -> int:
        return len(enumerate_schedules(one).classes)

    assert classes(CASES[0]) == 1
    assert classes(CASES[1]) == 2


def test_a_rank_that_leaves_gives_its_ports_back() -> None:
    """A rank that raises or dies frees its ports. A rank that has finished does not, because its process may still
    listen.
    """

    class Leaves(Program[Any]):
        async def run(self, rank: Rank, prepared: Any) -> None:
            if rank.rank == 0:
                await rank.open_store(5, "open")
                raise ValueError("enough")
            store = await rank.join_store(0, 5, "join", timeout_ns=SECOND)
            if store is not None:
                await store.get("k", "get")

    world = replace(world_of(2), services=())
    assert isinstance(world, World)
    assert missed(Case("leaves", world, Leaves())) == (0, 0, 0)
