"""Tests aborted communicators: waits of the rank that aborts raise Aborted, and its peers may hang. The tests compare
the explored results with all schedules, which brute force enumerates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpsim.checks import stuck
from dpsim.contract.interface import Aborted, Rank
from dpsim.contract.ops import BROKEN_OFF, DECISION_VALUE, KIND
from dpsim.contract.world import Run, World
from dpsim.explore.strategies.dpor import Dpor
from dpsim.sim.backend import SimBackend
from tests.judged import judge
from tests.programs import Script, Scripted, set_to, world_of
from tests.worlds.brute import schedules
from tests.worlds.case import Case, execute
from tests.worlds.explored import missed
from tests.worlds.test_machine_gaps import learned

TWO = world_of(2, ["h", "own"], ["d"])


class Aborting(Scripted):
    """A program that declares `aborts = True` and runs a script."""

    aborts = True


class Threaded(Aborting):
    """Such a program whose ranks also start host threads."""

    threaded = True


def run(world: World, script: Script, kind: type[Scripted] = Aborting) -> Run:
    return SimBackend().run_program(world, kind(script), None)


def case_of(world: World, script: Script, kind: type[Scripted] = Aborting) -> Case:
    return Case("aborts", world, kind(script))


def every(world: World, script: Script, kind: type[Scripted] = Aborting) -> list[Run]:
    return [done for _, done in schedules(case_of(world, script, kind))]


async def alone(rank: Rank) -> Any:
    """Rank 0 starts a collective and calls abort on its communicator twice. Then both the await of the collective and a
    new call raise Aborted.
    """
    group, heard = rank.host("h"), list[str]()
    if rank.rank:
        rank.host("h").abort(site="give_up")
        return None
    begun = group.all_reduce(np.ones(1, np.int32), site="agree")
    for _ in range(2):
        group.abort(site="give_up")
    try:
        await begun
    except Aborted as error:
        heard.append(str(error))
    try:
        group.barrier(site="again")
    except Aborted as error:
        heard.append(str(error))
    return tuple(heard)


def test_later_calls_and_awaits_raise() -> None:
    done = run(TWO, alone)
    assert done.ends == ["finished"] * 2
    assert learned(done, 0) == [BROKEN_OFF]
    [told] = [raw for raw in done.journals[0] if raw[KIND] == "decision"]
    assert told[DECISION_VALUE] == ("agree: rank 0 has aborted h", "again: rank 0 has aborted h")
    assert judge(TWO, done) == []


def test_a_program_that_does_not_declare_aborts_may_not_abort() -> None:
    async def aborts(rank: Rank) -> None:
        with pytest.raises(RuntimeError, match=r"write `aborts = True` in its class"):
            rank.host("h").abort()

    assert run(TWO, aborts, Scripted).finished


async def leaves_a_peer(rank: Rank) -> None:
    """Rank 0 starts an all-reduce with rank 1, and aborts the communicator. Rank 1 then gets the sum, or hangs."""
    work = rank.host("h").all_reduce(np.ones(1, np.int32), site="agree")
    if rank.rank == 0:
        rank.host("h").abort(site="give_up")
    else:
        await work


def test_a_peer_of_an_aborted_collective_finishes_or_blocks() -> None:
    assert {one.ends[1] for one in every(TWO, leaves_a_peer)} == {"finished", "blocked"}
    assert missed(case_of(TWO, leaves_a_peer)) == (0, 0, 0)
    hung = next(one for one in every(TWO, leaves_a_peer) if one.ends[1] == "blocked")
    [finding] = judge(TWO, hung)
    assert (finding.klass, finding.culprit and finding.culprit.rank) == ("HANG:COLLECTIVE:ABORTED", 0)


async def never_joins(rank: Rank) -> None:
    if rank.rank == 0:
        rank.host("h").abort(site="give_up")
    else:
        await rank.host("h").all_reduce(np.ones(1, np.int32), site="agree")


def test_a_peer_is_blocked_where_no_rank_arrived() -> None:
    done = run(TWO, never_joins)
    [finding] = judge(TWO, done)
    assert finding.klass == "HANG:COLLECTIVE:ABORTED"
    assert "has aborted h" in finding.message


def leaves_the_rest(group: str, joins: bool) -> Script:
    """Rank 1 aborts a group, and then meets all ranks. Rank 0 still waits in the group, so all ranks hang."""

    async def script(rank: Rank) -> None:
        if rank.rank < 2:
            comm = rank.host("h") if group == "h" else await rank.group("g", (0, 1), site="make")
            work = comm.all_reduce(np.ones(1, np.int32), site="agree") if rank.rank == 0 or joins else None
            if rank.rank == 1:
                comm.abort(site="give_up")
            elif work is not None:
                await work
        await rank.host("own").barrier(site="meet")

    return script


@pytest.mark.parametrize("group", ["g", "h"])
@pytest.mark.parametrize("joins", [True, False])
def test_a_hang_behind_an_abort_blames_the_abort(group: str, joins: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks wait in a circle, or others wait for the innocent rank 0. In the faulty twin, a rank that aborted a
    collective which it had joined counts as a member.
    """
    world = world_of(2 if group == "h" else 3, ["h", "own"])
    done = run(world, leaves_the_rest(group, joins))
    finding = judge(world, done)[0]
    assert finding.klass == "HANG:COLLECTIVE:ABORTED"
    assert finding.culprit is not None
    assert (finding.culprit.rank, "rank 1, which has aborted" in finding.message) == (1, True)
    monkeypatch.setattr(stuck, "_broken_off", lambda *_: [])
    assert (judge(world, done)[0].klass == "HANG:COLLECTIVE:ABORTED") is not joins


async def from_a_thread(rank: Rank) -> Any:
    """The main thread of rank 0 waits in a barrier that rank 1 joins, and another thread of rank 0 aborts the
    communicator.
    """
    group = rank.host("h")
    if rank.rank:
        await group.barrier(site="agree")
        return None

    async def give_up(own: Rank) -> None:
        group.abort(site="give_up")

    begun = group.barrier(site="agree")
    rank.start("u", give_up)
    try:
        await begun
    except Aborted:
        return "aborted"
    return "through"


def test_a_blocked_call_returns_or_raises_at_an_abort() -> None:
    world = world_of(2, ["h", "own"])
    case = case_of(world, from_a_thread, Threaded)
    ends = set()
    strategy = Dpor()
    while strategy.begin():
        done = execute(case, strategy)
        strategy.end(whole=True)
        [heard] = [raw[DECISION_VALUE] for raw in done.journals[0] if raw[KIND] == "decision"]
        ends.add((done.ends[1], heard))
    assert ends == {("finished", "through"), ("finished", "aborted"), ("blocked", "through"), ("blocked", "aborted")}


async def on_a_device(rank: Rank) -> Any:
    """Rank 0 aborts a device all-reduce that its peer never joins. Then it frees the buffer, and allocates the same
    memory again.
    """
    main, heard = rank.stream("s"), ""
    if rank.rank:
        return None
    x = main.alloc(4, "int32", "x")
    main.launch("fill", set_to, writes=[x], args=(1,))
    rank.device("d").all_reduce(x, main, site="sum")
    rank.device("d").abort(site="give_up")
    x.free()
    y = main.alloc(4, "int32", "y")
    main.launch("fill.again", set_to, writes=[y], args=(2,))
    try:
        await y.read("read")
    except Aborted as error:
        heard = str(error)
    return heard


def test_a_stream_continues_after_an_abort() -> None:
    for done in (run(TWO, on_a_device), *every(TWO, on_a_device)):
        assert done.ends == ["finished"] * 2
        assert learned(done, 0) == [BROKEN_OFF]


def classes(world: World, script: Script) -> set[str]:
    """Returns the classes of all findings, over all schedules."""
    return {finding.klass for done in every(world, script) for finding in judge(world, done)}


def test_an_aborted_collective_blames_no_peer_for_leaving_it_out() -> None:
    async def keeps_on(rank: Rank) -> None:
        """The faulty twin: rank 0 does not abort, so the collective hangs."""
        if rank.rank == 0:
            main = rank.stream("s")
            x = main.alloc(4, "int32", "x")
            main.launch("fill", set_to, writes=[x], args=(1,))
            rank.device("d").all_reduce(x, main, site="sum")
            await x.read("read")

    assert classes(TWO, on_a_device) == set()
    assert classes(TWO, keeps_on) == {"HANG:COLLECTIVE:MISSING_RANK"}


def test_an_aborted_host_collective_blames_no_peer() -> None:
    async def gives_up(rank: Rank) -> None:
        if rank.rank == 0:
            begun = rank.host("h").barrier(site="agree")
            rank.host("h").abort(site="give_up")
            with pytest.raises(Aborted):
                await begun

    assert classes(TWO, gives_up) == set()


def test_calls_that_ended_before_an_abort_are_still_compared() -> None:
    """The checks still compare calls that ended before an abort. Rank 1 omits a broadcast, which the root completes
    without it, and then rank 0 aborts a later sum.
    """

    async def through(rank: Rank) -> None:
        if rank.rank == 0:
            await rank.host("h").broadcast(np.ones(1, np.int32), 0, site="tell")
            rank.host("h").all_reduce(np.ones(1, np.int32), site="sum")
            rank.host("h").abort(site="give_up")

    assert "MISMATCH:COLLECTIVE:STEP" in classes(TWO, through)


def test_a_rank_that_left_out_a_call_that_others_did_not_abort_is_blamed() -> None:
    async def rank_0_aborts(rank: Rank) -> None:
        if rank.rank != 1:
            begun = rank.host("h").barrier(site="agree")
            if rank.rank == 0:
                rank.host("h").abort(site="give_up")
            else:
                await begun

    world = world_of(3, ["h"])
    findings = judge(world, run(world, rank_0_aborts))
    told = {(finding.check, finding.klass, finding.culprit and finding.culprit.rank) for finding in findings}
    assert ("ledger", "HANG:COLLECTIVE:MISSING_RANK", 1) in told


async def nothing_under_way(rank: Rank) -> Any:
    main = rank.stream("s")
    x = main.alloc(4, "int32", "x")
    main.launch("fill", set_to, writes=[x], args=(rank.rank,))
    rank.device("d").all_reduce(x, main, site="sum")
    total = await x.read("read")
    rank.device("d").abort(site="give_up")
    again = await x.read("read.again")
    return int(total[0]), int(again[0])


def test_an_abort_does_not_cancel_work_that_has_ended() -> None:
    """An abort does not break off work that has ended: here the host has read its result, and reads it again. In
    `on_a_device` the work is still in flight, so the abort breaks it off.
    """
    done = run(world_of(2, ["own"], ["d"]), nothing_under_way)
    assert [raw[DECISION_VALUE] for raw in done.journals[0] if raw[KIND] == "decision"] == [(1, 1)]


async def aborts_a_sum_late(rank: Rank) -> Any:
    """Rank 0 aborts an all-reduce that rank 1 may complete. The result of this all-reduce must not be written to rank
    0's memory, which may belong to another buffer by then.
    """
    main = rank.stream("s")
    x = main.alloc(4, "int32", "x")
    main.launch("fill", set_to, writes=[x], args=(1,))
    if rank.rank:
        await rank.mailbox("in").get("wait")
    rank.device("d").all_reduce(x, main, site="sum")
    if rank.rank == 0:
        rank.device("d").abort(site="give_up")
        rank.send(1, "in", "go", "say")
        await rank.mailbox("in").get("wait")
        return None
    rank.send(0, "in", "go", "say")
    return None


def test_exploring_misses_nothing_of_an_abort_on_a_device() -> None:
    assert missed(case_of(TWO, aborts_a_sum_late)) == (0, 0, 0)
    assert {one.ends[1] for one in every(TWO, aborts_a_sum_late)} == {"finished", "blocked"}


# ---- communicators that all members destroy together


async def destroys(rank: Rank) -> Any:
    await rank.host("h").destroy()
    try:
        rank.host("h").barrier(site="again")
    except RuntimeError as error:
        return str(error).replace(f"rank {rank.rank}", "the rank")


async def rank_1_destroys_alone(rank: Rank) -> None:
    if rank.rank:
        await rank.host("h").destroy()


def test_to_destroy_is_the_last_that_all_do_together() -> None:
    done = run(TWO, destroys, Scripted)
    told = [raw[DECISION_VALUE] for raw in done.journals[1] if raw[KIND] == "decision"]
    assert told == ["again: the rank has destroyed h; make no call on it after that"]
    assert judge(TWO, done) == []
    classes = {finding.klass for finding in judge(TWO, run(TWO, rank_1_destroys_alone, Scripted))}
    assert "HANG:COLLECTIVE:MISSING_RANK" in classes, "the twin"
