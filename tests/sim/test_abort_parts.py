"""Tests what an abort means for calls of a host. A call's part exists from the call on, and depends on the members from
which it receives. An own abort takes away every later look, also at work that is over.

Each example decides what a rank saw. For the examples of two ranks, brute force enumerates all schedules, and DPOR must
miss none of their outcomes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpsim.contract.interface import Aborted, HostWork, Rank
from dpsim.contract.ops import DECISION_VALUE, KIND
from dpsim.contract.schedule import CutOff
from dpsim.contract.world import Kill, Run, World
from dpsim.explore.strategies.dpor import Dpor
from dpsim.sim.calls.communicators import SimHostCommunicator
from dpsim.sim.calls.underway import QueriedCall, Underway
from dpsim.sim.collectives.any_source import AnySource
from dpsim.sim.collectives.membership import Membership
from dpsim.sim.graph.alarms import Alarms
from tests.programs import Script, Scripted, world_of
from tests.properties import nightly_but
from tests.sim.test_aborts import Aborting, Threaded
from tests.worlds.case import Case, execute
from tests.worlds.explored import missed

ONE = np.ones(1, np.int32)
MS = 1_000_000


def case(script: Script, ranks: int = 2, kind: type[Scripted] = Aborting, world: World | None = None) -> Case:
    return Case("parts", world or world_of(ranks, ["h", "own"]), kind(script))


def seen(case: Case, rank: int = 0) -> set[Any]:
    """Returns what a rank decided in any schedule of DPOR, or how it ended."""
    values, strategy = set(), Dpor()
    while strategy.begin():
        try:
            values.add(decided(execute(case, strategy), rank))
            strategy.end(whole=True)
        except CutOff:
            strategy.end(whole=False)
    return values


def decided(run: Run, rank: int) -> Any:
    values = [raw[DECISION_VALUE] for raw in run.journals[rank] if raw[KIND] == "decision"]
    return values[-1] if values else run.ends[rank]


async def looked(work: HostWork[Any], ms: int = 1_000) -> bool | str:
    try:
        return await work.within(ms * MS, "within")
    except Aborted:
        return "aborted"


async def passes_time(rank: Rank, ms: int) -> None:
    assert await rank.mailbox("never").get("wait", timeout_ns=ms * MS) is None


# ---- a part exists from the call on


async def ends_in_the_background(rank: Rank) -> Any:
    """All have called before a peer's abort, and rank 0 looks long after it."""
    group = rank.host("h")
    work = group.all_reduce(ONE, site="sum")
    await rank.host("own").barrier(site="called")
    if rank.rank:
        await passes_time(rank, 100)
        group.abort(site="give_up")
        with pytest.raises(Aborted):
            await work
        return None
    await passes_time(rank, 400)
    answer = await looked(work)
    group.abort(site="give_up")
    with pytest.raises(Aborted):
        await work
    return answer


async def ends_or_not(rank: Rank) -> Any:
    """As above, and nothing says which is first: the end of the call or the leaving."""
    group = rank.host("h")
    work = group.all_reduce(ONE, site="sum")
    if rank.rank:
        group.abort(site="give_up")
        with pytest.raises(Aborted):
            await work
        return None
    answer = await looked(work)
    group.abort(site="give_up")
    with pytest.raises(Aborted):
        await work
    return answer


def parts_at_the_first_look(patch: pytest.MonkeyPatch) -> None:
    """The faulty twin: the machine makes the part when the host first looks."""
    part, drawn = SimHostCommunicator._part, Underway.drawn
    patch.setattr(SimHostCommunicator, "_part", lambda self, last, issue: last)
    patch.setattr(Underway, "drawn", lambda self: part(self[0], drawn(self), self[3]))
    patch.setattr(QueriedCall, "_drawn_in_time", lambda self, *_: self._resolved())


def test_a_call_that_all_made_ends_before_a_peer_aborts_later(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen(case(ends_in_the_background)) == {True}
    assert seen(case(ends_or_not)) == {True, False}
    parts_at_the_first_look(monkeypatch)
    assert seen(case(ends_in_the_background)) == {True, False}


async def starts_late(rank: Rank) -> Any:
    """Rank 0 makes its call after rank 1 has aborted, and perhaps left."""
    group = rank.host("h")
    if rank.rank:
        group.all_reduce(ONE, site="sum")
        group.abort(site="give_up")
        return None
    await passes_time(rank, 100)
    work = group.all_reduce(ONE, site="sum")
    answer = await looked(work)
    group.abort(site="give_up")
    return answer


def test_a_call_after_the_leaving_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A time-out orders nothing: gloo lets the work of a rank that has aborted live on."""
    assert seen(case(starts_late)) == {True, False}
    monkeypatch.setattr(Membership, "_leave", lambda self: None)
    assert seen(case(starts_late)) == {True}, "the twin: no rank leaves"


# ---- a part depends on the members from which it receives


def third(call: Any) -> Script:
    """Rank 2 aborts. Some time later, ranks 0 and 1 make a call; rank 1 decides whether it ended."""

    async def script(rank: Rank) -> Any:
        group = rank.host("h")
        if rank.rank == 2:
            group.abort(site="give_up")
        else:
            await passes_time(rank, 100)
            work = call(rank, group)
            answer = await looked(work)
        await rank.host("own").barrier(site="looked")
        if rank.rank == 2:
            return None
        group.abort(site="give_up")
        with pytest.raises(Aborted):
            await work
        return answer

    return script


CALLS: dict[str, tuple[Any, set[Any]]] = {
    "receive": (lambda rank, group: group.recv(1, "int32", 0) if rank.rank else group.send(ONE, 1), {True}),
    "any source": (lambda rank, group: group.recv_any(1, "int32") if rank.rank else group.send(ONE, 1), {True}),
    "broadcast": (lambda rank, group: group.broadcast(ONE, 0), {True, False}),  # it may wait for rank 2
    "barrier": (lambda rank, group: group.barrier(), {False}),
    "broadcast of rank 2": (lambda rank, group: group.broadcast(ONE, 2), {False}),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_part_depends_on_the_members_from_which_it_receives(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call, expected = CALLS[name]
    assert seen(case(third(call), 3), rank=1) == expected
    if name == "receive":
        everyone = lambda self, _: [one for one in (0, 1, 2) if one != self._rank]  # noqa: E731
        monkeypatch.setattr(Membership, "_senders", everyone)
        assert seen(case(third(call), 3), rank=1) == {True, False}, "the twin: it depends on all members"


async def takes_any(rank: Rank) -> Any:
    """The other ranks send to rank 0, and rank 1 aborts. Its message is taken before it leaves, or lost."""
    group = rank.host("h")
    if rank.rank:
        group.send(ONE, 0, site="send")
        if rank.rank == 1:
            group.abort(site="give_up")
        return None
    await passes_time(rank, 100)
    received = await group.recv_any(1, "int32", site="any")
    return received.source


def test_a_message_of_a_member_that_left_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen(case(takes_any, 3)) == {1, 2}
    assert seen(case(takes_any)) == {1, "blocked"}
    monkeypatch.setattr(AnySource, "_need", lambda *_: None)
    assert seen(case(takes_any)) == {1}, "the twin: a message stays"


# ---- an own abort is asked first


async def found_over(rank: Rank) -> Any:
    group = rank.host("h")
    over, awaited = group.all_reduce(ONE, site="sum"), group.barrier(site="awaited")
    await awaited
    if rank.rank:
        return await over
    found = await over.within(1_000 * MS, "within")
    group.abort(site="give_up")
    looks = (over.query("q"), over.within(MS, "w"), awaited.query("q"), awaited.within(MS, "w"), over)
    heard = []
    for look in looks:
        try:
            await look
        except Aborted as error:
            heard.append(str(error).partition(":")[0])
    return found, tuple(heard)


def test_after_an_own_abort_no_look_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen(case(found_over)) == {(True, ("sum", "sum", "awaited", "awaited", "sum"))}
    monkeypatch.setattr(SimHostCommunicator, "unless_aborted", lambda self, site: iter(()))
    assert seen(case(found_over)) == {(True, ())}, "the twin: work that is over returns"


async def another_thread_aborts(rank: Rank) -> Any:
    """Main waits, and another thread aborts. Main gets the result only if the call was over before the abort."""
    group = rank.host("h")
    if rank.rank:
        await group.barrier(site="agree")
        return None

    async def give_up(own: Rank) -> None:
        group.abort(site="give_up")

    begun = group.barrier(site="agree")
    rank.start("u", give_up)
    return await looked(begun)


def test_a_waiting_thread_gets_aborted_or_the_end() -> None:
    assert seen(case(another_thread_aborts, kind=Threaded)) == {True, "aborted"}


# ---- a query after a time-out


async def asks_after(rank: Rank, *, first: bool = False) -> Any:
    """Rank 0 queries after a time-out passed, for the first time unless `first`."""
    work = rank.host("h").barrier(site="meet")
    if rank.rank:
        await work
        return None
    if first:
        await work.query("before")
    await passes_time(rank, 1)
    answer = await work.query("after")
    await work
    return answer


def test_a_query_after_a_time_out_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen(case(asks_after, kind=Scripted)) == {True}
    monkeypatch.setattr(Alarms, "behind", lambda *_: False)
    assert seen(case(asks_after, kind=Scripted)) == {True, False}, "the twin"


async def another_times_out(rank: Rank) -> Any:
    """Both ranks wait until equal time-outs. Rank 1 makes its call after its own, so rank 0 may be too early."""
    if rank.rank == 0:
        work = rank.host("h").barrier(site="meet")
    await passes_time(rank, 1)
    if rank.rank:
        await rank.host("h").barrier(site="meet")
        return None
    answer = await work.query("after")
    await work
    return answer


def test_a_query_after_a_time_out_that_passes_first_may_be_false() -> None:
    assert seen(case(another_times_out, kind=Scripted)) == {True, False}


# ---- members that die


async def told_and_died(rank: Rank) -> Any:
    """Rank 1 sends to ranks 0 and 2, and ends. Rank 0 returns what the two received."""
    if rank.rank == 1:
        rank.send(0, "told", 1, "tell_0")
        rank.send(2, "told", 1, "tell_2")
        return None
    told = await rank.mailbox("told").get("told", timeout_ns=MS)
    if rank.rank == 2:
        rank.send(0, "other", told or 0, "compare")
        return None
    return told, await rank.mailbox("other").get("other")


def test_a_rank_may_die_behind_its_last_plain_call(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(3, ["h", "own"], kills=(Kill(1, loses_mail=True),))
    assert (None, 1) in seen(case(told_and_died, kind=Scripted, world=world))
    monkeypatch.setattr("dpsim.sim.hosts.host.Host.settle", lambda self: iter(()))
    assert (None, 1) not in seen(case(told_and_died, kind=Scripted, world=world)), "the twin"


async def receives_before(rank: Rank) -> Any:
    """Rank 1 sends, and may die. Rank 0 queries the receive after it heard that rank 1 is gone."""
    group = rank.host("h")
    if rank.rank:
        await group.send(ONE, 0, site="send")
        return None
    work = group.recv(1, "int32", 1, site="recv")
    rank.watch(1, "gone", "watch")
    await rank.mailbox("gone").get("gone")
    return await looked(work)


def test_a_part_may_end_before_its_sender_dies_partially() -> None:
    world = world_of(2, ["h", "own"], kills=(Kill(1, partial=True),))
    assert seen(case(receives_before, kind=Scripted, world=world)) == {True, False}


@pytest.mark.parametrize(
    "script", [ends_in_the_background, ends_or_not, starts_late, found_over, asks_after, another_times_out]
)
def test_exploring_misses_nothing(script: Script) -> None:
    kind = Scripted if script in (asks_after, another_times_out) else Aborting
    assert missed(case(script, kind=kind))[:2] == (0, 0)


@pytest.mark.parametrize(
    "script", nightly_but([takes_any, third(CALLS["receive"][0])], lambda script: script is takes_any)
)
def test_exploring_misses_nothing_of_three_ranks(script: Script) -> None:
    assert missed(case(script, 3))[:2] == (0, 0)


def test_exploring_misses_nothing_of_a_partial_death() -> None:
    world = world_of(2, ["h", "own"], kills=(Kill(1, partial=True),))
    assert missed(case(receives_before, kind=Scripted, world=world))[:2] == (0, 0)
