"""Tests of former mistakes of proofs: outcomes of ranks that may die, and of hosts that a limit or an error delays.

Each test contains a faulty twin: without the rule, the exploration misses outcomes that brute force sees.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from dpsim.backend.graphs.kernel_call import KernelError
from dpsim.contract.interface import Rank
from dpsim.contract.schedule import Strategy
from dpsim.contract.world import At, Kill
from dpsim.sim.calls import communicators
from dpsim.sim.graph import machine
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host
from tests.programs import Script, world_of
from tests.soundness.worlds import all_ends, filled
from tests.worlds.brute import enumerate_schedules
from tests.worlds.explored import explored, missed
from tests.worlds.test_machine_gaps import case_of, fails

ONE = np.ones(1, np.int32)
NONE_MISSED = (0, 0, 0)

# ---- a rank that may be killed from some op on may also wait before this op without end


async def sends_and_serves(rank: Rank) -> None:
    if rank.rank == 0:
        await rank.host("h").send(ONE, 1)
        await rank.mailbox("calls").get("serve", idle=True)


async def send_to_each_other(rank: Rank) -> None:
    peer = 1 - rank.rank
    await rank.host("h").send(ONE, peer)
    await rank.host("h").recv(1, "int32", peer)
    if rank.rank == 0:
        await rank.mailbox("calls").get("serve", idle=True)


def all_of_them(deaths: Sequence[Op], strategy: Strategy) -> list[Op]:
    return list(deaths)


@pytest.mark.parametrize("script", [sends_and_serves, send_to_each_other])
def test_a_rank_may_block_before_its_possible_death(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """Explores a rank that may be killed from one op on, and that sends before it. No rank receives the send, so the
    rank may wait in it without end. In the faulty twin, a rank that reaches the op always dies, so DPOR misses an
    outcome.
    """
    case = case_of(world_of(2, ["h"], kills=(Kill(0, at=At("serve", 0)),)), script)
    assert missed(case) == NONE_MISSED
    monkeypatch.setattr(machine, "in_the_end", all_of_them)
    assert missed(case)[0]


@pytest.mark.parametrize("at", [At("agree", None), At("agree", 0)], ids=["every visit", "the first"])
def test_a_kill_without_an_ordinal_counts_from_the_first_visit(at: At) -> None:
    async def agrees_twice(rank: Rank) -> None:
        for _ in range(2):
            await rank.host("h").all_reduce(ONE, site="agree")

    case = case_of(world_of(2, ["h"], kills=(Kill(1, at=at),)), agrees_twice)
    assert missed(case) == NONE_MISSED
    assert enumerate_schedules(case).broken == [], "a second death has the label of the first"


# ---- a rank that may die need not die


async def rank_0_waits_for_a_message(rank: Rank) -> None:
    if rank.rank == 0:
        await rank.mailbox("never").get("get")


def test_a_rank_that_may_die_may_block_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(2, kills=(Kill(0),))
    assert all_ends(world, rank_0_waits_for_a_message) == {("blocked", "finished"), ("died", "finished")}
    monkeypatch.setattr(machine, "in_the_end", all_of_them)
    assert all_ends(world, rank_0_waits_for_a_message) == {("died", "finished")}


# ---- what a host observes


async def hears_of_a_sender_by_an_error(rank: Rank) -> None:
    """Rank 0's kernel fails after it has received from rank 2. So a rank that learns of the error from rank 0 comes
    after rank 2's send.
    """
    main = rank.stream("main")
    if rank.rank == 2:
        await rank.host("h").send(ONE, 1)
        rank.device("d").send(filled(main, "x", size=1), 0, main)
    elif rank.rank == 0:
        x = main.alloc(1, "int32", "x")
        rank.device("d").recv(x, 2, main)
        main.launch("bad", fails, writes=[x])
        try:
            await x.read("read")
        except KernelError:
            rank.send(1, "told", True, "tell")
    else:
        await rank.mailbox("told").get("wait")
        await rank.host("h").recv(1, "int32", 2)


def test_a_raised_error_is_ordered_after_its_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of(world_of(3, ["h"], ["d"]), hears_of_a_sender_by_an_error)
    assert missed(case) == NONE_MISSED
    _, outcomes = explored(case)
    real = Host.device_failed

    def without_causes(self: Host, error: KernelError, by: Op) -> None:
        real(self, error, by)
        self._failed = None

    monkeypatch.setattr(Host, "device_failed", without_causes)
    assert explored(case)[1] < outcomes


# ---- how a limit of the world delays a host


async def asks_behind_an_allocation(rank: Rank) -> None:
    """In a world whose allocations synchronize, the allocation waits for the left stream. So the event has passed, and
    the query must return True.
    """
    left, right = rank.stream("left"), rank.stream("right")
    filled(left, "x", size=1)
    event = left.record()
    right.alloc(1, "int32", "y")
    await rank.sleep(1, "nap")
    passed = await event.query("query")
    if not passed:
        await rank.mailbox("never").get("get")


def test_a_host_that_passed_a_blocked_allocation_has_observed_the_work_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = world_of(1, alloc_synchronises=True)
    assert all_ends(world, asks_behind_an_allocation) == {("finished",)}
    assert all_ends(world_of(1), asks_behind_an_allocation) == {("finished",), ("blocked",)}, (
        "without the limit, the query may come before the event"
    )
    stand = Host.stand

    def without_marks(self: Host, ends: Sequence[Op], records: int) -> None:
        unknown = [Op("", life=self.rank) for _ in ends]
        for end, op in zip(ends, unknown, strict=True):
            op.effect, op.args = setattr, (op, "seen_marks", 0)
            self.machine.edge(end, op)
            self.machine.submit(op)
        stand(self, unknown, records)

    monkeypatch.setattr(Host, "stand", without_marks)
    assert ("blocked",) in all_ends(world, asks_behind_an_allocation)


@pytest.mark.parametrize(("size", "end"), [(0, "finished"), (1, "blocked")])
def test_an_empty_allocation_waits_for_no_rank(size: int, end: str) -> None:
    """Allocates on a second stream while the first waits in a collective that no peer joins. An allocation without
    elements does not wait for the first stream. An allocation with elements does, so rank 1 never gets its message.
    """

    async def script(rank: Rank) -> None:
        if rank.rank == 1:
            await rank.mailbox("told").get("wait")
            return
        main = rank.stream("main")
        rank.device("d").all_reduce(main.alloc(1, "int32", "x"), main)
        rank.stream("other").alloc(size, "int32", "y")
        rank.send(1, "told", True, "tell")

    assert {ends[1] for ends in all_ends(world_of(2, devices=["d"], alloc_synchronises=True), script)} == {end}


# ---- a member without elements in a collective


async def adds_nothing(rank: Rank) -> None:
    """Rank 0 calls an all_reduce without elements, which rank 1 never joins."""
    main = rank.stream("main")
    if rank.rank == 0:
        rank.device("d").all_reduce(main.alloc(0, "int32", "nothing"), main)
        await filled(main, "x").read("read")


def test_a_collective_of_nothing_holds_no_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(2, devices=["d"])
    assert all_ends(world, adds_nothing) == {("finished", "finished")}
    monkeypatch.setattr(communicators, "is_idle", lambda *call: False)
    assert ("blocked", "finished") in all_ends(world, adds_nothing)


# ---- the peers that a death may affect


@pytest.mark.parametrize("partial", [True, False])
@pytest.mark.parametrize(("op", "victim"), [("transfer", 0), ("broadcast", 0), ("broadcast", 1)])
def test_a_sender_a_root_or_a_relay_may_die_before_it_has_served_all(op: str, victim: int, partial: bool) -> None:
    """Explores a victim that has ended its call and then dies; rank 2 gets its data from rank 0. On a host, the
    transfer continues without the victim.
    """

    async def script(rank: Rank) -> None:
        group = rank.host("h")
        if op == "broadcast":
            await group.broadcast(ONE, 0)
        elif rank.rank == 0:
            await group.send(ONE, 2)
        elif rank.rank == 2:
            await group.recv(1, "int32", 0)
        if rank.rank == victim:
            rank.send(2, "through", True, "tell")
            await rank.mailbox("calls").get("serve", idle=True)
        if rank.rank == 2:
            await rank.mailbox("through").get("wait")

    world = world_of(3, ["h"], kills=(Kill(victim, at=At("serve", 0), partial=partial),))
    ends = all_ends(world, script)
    dead = {one[2] for one in ends if one[victim] == "died"}
    assert dead == ({"blocked", "finished"} if partial else {"finished"})
