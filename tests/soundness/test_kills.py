"""Tests of the deaths of ranks: which peers a dying rank leaves stuck. Options of a kill select what hardware may
lose.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.world import End, Kill
from dpsim.sim.collectives import parts
from dpsim.sim.collectives.groups import Group
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host
from tests.programs import Script, world_of
from tests.soundness.worlds import all_ends, filled
from tests.worlds.test_machine_gaps import fails

# ---- in a collective


async def sends_after_the_collective(rank: Rank) -> None:
    """All ranks call a collective. Afterwards rank 0 sends rank 1 a message, for which rank 1 waits."""
    await rank.host("h").all_reduce(np.ones(1, np.int32))
    if rank.rank == 0:
        rank.send(1, "told", True, "tell")
    if rank.rank == 1:
        await rank.mailbox("told").get("wait")


@pytest.mark.parametrize("partial", [True, False])
def test_a_death_in_a_collective_may_take_any_peers_with_it(partial: bool) -> None:
    """Explores rank 2's death in a collective. On hardware it may have served only some peers. dpsim shows this only
    with the option `partial`. Otherwise either both peers end the collective, or neither does.
    """
    ends = all_ends(world_of(3, hosts=["h"], kills=(Kill(2, partial=partial),)), sends_after_the_collective)
    assert (("finished", "blocked", "died") in ends) == partial


@pytest.mark.parametrize("partial", [True, False])
def test_a_death_in_a_device_collective_may_take_any_peers_with_it(partial: bool) -> None:
    ends = all_ends(world_of(3, devices=["d"], kills=(Kill(2, partial=partial),)), sums_on_the_device)
    assert (("finished", "blocked", "died") in ends) == partial


def test_a_death_in_a_collective_may_take_all_peers_with_it_or_none() -> None:
    ends = all_ends(world_of(3, hosts=["h"], kills=(Kill(2, 0),)), sends_after_the_collective)
    assert {("blocked", "blocked", "died"), ("finished", "finished", "died")} <= ends


async def sums_on_the_device(rank: Rank) -> None:
    x = filled(rank.stream("main"), "x")
    rank.device("d").all_reduce(x, rank.stream("main"))


# ---- what a device ends early


async def broadcasts_on_the_device(rank: Rank) -> None:
    x = filled(rank.stream("main"), "x", size=1)
    rank.device("d").broadcast(x, 0, rank.stream("main"))
    if rank.rank:
        await x.read("read")


def test_parts_that_end_early_end_for_some_peers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Explores rank 0's death in a broadcast on the device. Without any option, one receiver may end alone. In the
    faulty twin each receiver waits for all members, so the receivers end together or not at all.
    """
    world = world_of(3, devices=["d"], kills=(Kill(0),))
    one: set[tuple[End, ...]] = {("died", "finished", "blocked"), ("died", "blocked", "finished")}
    both: set[tuple[End, ...]] = {("died", "blocked", "blocked"), ("died", "finished", "finished")}
    assert all_ends(world, broadcasts_on_the_device) == one | both | {("finished",) * 3}
    monkeypatch.setattr(parts, "_wanted", lambda *call: None)
    assert all_ends(world, broadcasts_on_the_device) == both | {("finished",) * 3}


# ---- which peers the dead ranks left unserved


async def serves_after_a_sum(rank: Rank) -> None:
    await rank.host("h").all_reduce(np.ones(1, np.int32))
    await rank.mailbox("calls").get("serve", idle=True)


async def serves_after_a_sum_on_the_device(rank: Rank) -> None:
    main = rank.stream("main")
    x = main.alloc(1, "int32", "x")
    rank.device("d").all_reduce(x, main)
    await x.read("read")
    await rank.mailbox("calls").get("serve", idle=True)


@pytest.mark.parametrize("script", [serves_after_a_sum, serves_after_a_sum_on_the_device])
def test_of_two_that_may_be_killed_either_may_leave_a_peer_unserved(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Explores two ranks that may be killed in a collective. A rank that lives is stuck only if the other one died. In
    the faulty twin rank 1 serves either all its peers or none.
    """
    world = world_of(3, ["h"], ["d"], kills=(Kill(0, partial=True), Kill(1, partial=True)))
    dead: Sequence[tuple[End, End]] = [
        ("died", "died"),
        ("died", "blocked"),
        ("died", "finished"),
        ("blocked", "died"),
        ("finished", "died"),
    ]
    peer: Sequence[End] = ("blocked", "finished")
    ends: set[tuple[End, ...]] = {(*two, end) for two in dead for end in peer} | {("finished",) * 3}
    assert all_ends(world, script) == ends
    serve = Group.served

    def of_one_victim(group: Group, host: Host, members: Collection[int], end: Op) -> Op:
        with monkeypatch.context() as patch:
            patch.setattr(host.machine, "partial", host.machine.partial[:1])
            return serve(group, host, members, end)

    monkeypatch.setattr(Group, "served", of_one_victim)
    assert all_ends(world, script) == ends - {("blocked", "died", "finished"), ("finished", "died", "blocked")}


async def fails_before_a_barrier(rank: Rank) -> None:
    if rank.rank == 0:
        main = rank.stream("main")
        main.launch("bad", fails, writes=[main.alloc(1, "int32", "z")])
    await rank.host("h").barrier()


def test_a_host_serves_its_peers_though_its_device_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Explores a kill of rank 0, whose device may also fail. Only the kill can leave its peer unserved in the host
    collective. In the faulty twin the failure of the device does so as well.
    """
    world = world_of(2, ["h"], kills=(Kill(0, partial=True),))
    ends: set[tuple[End, ...]] = {("died", "blocked"), ("died", "finished"), ("raised", "finished")}
    assert all_ends(world, fails_before_a_barrier) == ends
    serve = Group.served

    def by_the_device(group: Group, host: Host, members: Collection[int], end: Op) -> Op:
        with monkeypatch.context() as patch:
            patch.setattr(group, "device", True)
            return serve(group, host, members, end)

    monkeypatch.setattr(Group, "served", by_the_device)
    assert all_ends(world, fails_before_a_barrier) == ends | {("raised", "blocked")}
