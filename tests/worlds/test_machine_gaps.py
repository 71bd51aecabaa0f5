"""Tests of former bugs of the untimed machine: it omitted an op, or a conflict, that an explorer needs.

Each test is a program of a few lines. With the former bug, an explorer called a faulty program proven, or dpsim missed
a finding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsim.contract.interface import Rank
from dpsim.contract.ops import KIND, LEARNED_OUTCOME
from dpsim.contract.world import Kill, Run, World
from tests.programs import Script, Scripted, set_to, world_of
from tests.worlds.brute import Found, enumerate_schedules, schedules
from tests.worlds.case import Case
from tests.worlds.commute import complaints
from tests.worlds.explored import missed


def case_of(world: World, script: Script, memory: bool = False) -> Case:
    return Case("gap", world, Scripted(script), memory=memory)


def every(world: World, script: Script, memory: bool = False) -> Found:
    return enumerate_schedules(case_of(world, script, memory))


def runs(world: World, script: Script, memory: bool = False) -> list[Run]:
    return [run for _, run in schedules(case_of(world, script, memory))]


def learned(run: Run, rank: int) -> list[Any]:
    return [raw[LEARNED_OUTCOME] for raw in run.journals[rank] if raw[KIND] == "learned"]


def fails(buffer: Any) -> None:
    raise ValueError("a kernel that fails")


async def asks_later(rank: Rank) -> None:
    main = rank.stream("main")
    buffer = main.alloc(1, "int32", "buffer")
    main.launch("kernel", set_to, writes=[buffer], args=(1,))
    done = main.record()
    await rank.mailbox("nothing").poll("poll")
    await done.query("query")


def test_a_query_conflicts_with_its_event_in_either_order() -> None:
    """Runs a program whose kernel and poll do not conflict. Still, the query of the event has a race only if the poll
    comes first. So both orders must show the same footprints.
    """
    assert complaints(case_of(world_of(1), asks_later, memory=True), seed=0) == []


def test_a_query_may_say_no_also_where_memory_is_no_choice() -> None:
    assert sorted(learned(run, 0)[1] for run in runs(world_of(1), asks_later)) == [False, True]


async def asks_for_a_collective(rank: Rank) -> None:
    main = rank.stream("main")
    buffer = main.alloc(1, "int32", "buffer")
    main.launch("kernel", set_to, writes=[buffer], args=(1,))
    rank.device("dp").all_reduce(buffer, main)
    await main.record().query("query")


def test_a_query_of_a_collective_may_say_no_on_the_last_rank_too() -> None:
    answers = {learned(run, 1)[0] for run in runs(world_of(2, devices=["dp"]), asks_for_a_collective)}
    assert answers == {True, False}


def test_a_query_of_a_collective_that_not_all_have_joined_conflicts_with_it() -> None:
    found = every(world_of(2, devices=["dp"]), asks_for_a_collective, memory=True)
    assert not found.torn


async def looks_then_starts(rank: Rank) -> None:
    main = rank.stream("main")
    await rank.mailbox("in").poll("poll")
    rank.device("dp").all_reduce(main.alloc(1, "int32", "buffer"), main)


def test_an_acquire_has_its_host_in_its_past() -> None:
    assert not every(world_of(2, devices=["dp"], residency=1), looks_then_starts).broken


async def joined_points(rank: Rank) -> None:
    main = rank.stream("main")
    buffer = main.alloc(1, "int32", "buffer")
    main.launch("kernel", set_to, writes=[buffer], args=(1,))
    for name in ("left", "right"):
        side = rank.stream(name)
        side.wait_stream(main)
        await side.record().query(f"query.{name}")


def test_labels_of_points_that_only_wait() -> None:
    assert not every(world_of(1), joined_points, memory=True).broken


async def waits_twice(rank: Rank) -> None:
    main, side = rank.stream("main"), rank.stream("side")
    buffer = main.alloc(1, "int32", "buffer")
    main.launch("kernel", set_to, writes=[buffer], args=(1,))
    side.wait_stream(main)
    side.record()
    rank.device("dp").all_reduce(buffer, main)
    side.wait_stream(main)


def test_a_death_between_points_that_only_wait_is_seen() -> None:
    assert missed(case_of(world_of(2, devices=["dp"], kills=(Kill(1, 0),)), waits_twice)) == (0, 0, 0)


async def exchange(rank: Rank) -> None:
    main, group = rank.stream("main"), rank.device("dp")
    out, came = main.alloc(1, "int32", "out"), main.alloc(1, "int32", "came")
    main.launch("fill", set_to, writes=[out], args=(1,))
    with group.coalesced(main):
        group.send(out, 1 - rank.rank, main)
        group.recv(came, 1 - rank.rank, main)
    await came.read("read")


def test_labels_of_coalesced_groups() -> None:
    assert not every(world_of(2, devices=["dp"], kills=(Kill(1, 0),)), exchange).broken


async def told(rank: Rank) -> None:
    if rank.rank == 0:
        rank.send(1, "in", 1, "send")
    else:
        await rank.mailbox("in").get("get")


def test_a_get_of_a_mortal_rank_has_its_message_in_its_past() -> None:
    assert not every(world_of(2, kills=(Kill(1, 0),)), told).broken


async def one_device_fails(rank: Rank) -> None:
    main, side = rank.stream("main"), rank.stream("side")
    bad, good = main.alloc(1, "int32", "bad"), side.alloc(1, "int32", "good")
    side.launch("fill", set_to, writes=[good], args=(1,))
    if rank.rank == 0:
        main.launch("fails", fails, writes=[bad])
    rank.device("dp").all_reduce(good, side)
    await good.read("read")


def test_a_kernel_that_fails_is_found_in_every_schedule() -> None:
    """Runs a program whose kernel raises, on a device that has other work in flight. The kernel stops that work, but
    its footprint does not conflict with it. This is correct: without a race, a kernel's result does not depend on the
    schedule, so it raises in all schedules.
    """
    found = every(world_of(2, devices=["dp"]), one_device_fails, memory=True)
    assert found.complete
    assert found.failing == found.schedules


async def posts_before_it_joins(rank: Rank) -> None:
    if rank.rank == 1:
        rank.send(0, "in", "alive", "send")
        await rank.host("dp").all_reduce(np.ones(1, np.int32))
    else:
        await rank.mailbox("in").get("get", idle=True)


def test_a_rank_can_die_before_it_does_anything() -> None:
    world = world_of(2, hosts=["dp"], kills=(Kill(1, 0),))
    assert any([raw[KIND] for raw in run.journals[1]] == ["injected"] for run in runs(world, posts_before_it_joins))


async def posts_between_two_sums(rank: Rank) -> None:
    group = rank.host("dp")
    await group.all_reduce(np.ones(1, np.int32), site="one")
    if rank.rank == 1:
        rank.send(0, "in", "go on", "send")
    else:
        await rank.mailbox("in").get("get")
    await group.all_reduce(np.ones(1, np.int32), site="two")


def test_a_rank_can_die_between_a_message_and_a_collective() -> None:
    world = world_of(2, hosts=["dp"], kills=(Kill(1, 0),))
    done = runs(world, posts_between_two_sums)
    assert any("go on" in learned(run, 0) and run.ends == ["blocked", "died"] for run in done)


async def crossed_on_the_device(rank: Rank) -> None:
    main = rank.stream("main")
    for kind in ("a", "b") if rank.rank == 0 else ("b", "a"):
        buffer = main.alloc(1, "int32", kind)
        main.launch("fill", set_to, writes=[buffer], args=(1,))
        rank.device(kind).all_reduce(buffer, main)
    await rank.mailbox("in").get("idle", idle=True)


def test_a_device_that_hangs_behind_an_idle_host_is_no_good_end() -> None:
    assert every(world_of(2, devices=["a", "b"]), crossed_on_the_device).failing == 1
