"""Tests communicators that their members create at the first use. There all members meet, and each host blocks in its
call until the others arrive.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dpsim.checks.judge import judge
from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.world import World
from dpsim.diagnose.words import text
from tests.programs import Script, Scripted, explored, judged, world_of
from tests.programs import run as done
from tests.sim.programs import everywhere, filled, numbers, usual_world
from tests.worlds.case import Case
from tests.worlds.explored import missed

FIRST_USE = "HANG:HOST:FIRST_USE"


def lazy(ranks: int = 2) -> World:
    return replace(usual_world(ranks), lazy=True)


async def sums(rank: Rank) -> Any:
    main = rank.stream("main")
    x = filled(main, [rank.rank + 1])
    rank.device("d").all_reduce(x, main)
    return numbers(await x.read("read"))


def test_lazy_communicators_compute_the_same_results() -> None:
    for seen in everywhere(sums, lazy()):
        assert seen.learned == [(3,), (3,)]
        assert not seen.findings


async def crosswise(rank: Rank) -> Any:
    """Each rank uses another communicator first, on separate streams. The streams do not order the calls, but the hosts
    do.
    """
    order = ("d", "e") if rank.rank else ("e", "d")
    kept = []
    for kind in order:
        stream = rank.stream(kind)
        x = filled(stream, [1], site=f"x.{kind}")
        rank.device(kind).all_reduce(x, stream)
        kept.append(x)
    return tuple([numbers(await x.read("read")) for x in kept])


def test_first_uses_in_another_order_hang_where_they_are_meetings() -> None:
    for seen in everywhere(crosswise, usual_world()):
        assert seen.run.finished
    for seen in everywhere(crosswise, lazy()):
        assert seen.run.ends == ["blocked", "blocked"]
        assert seen.classes == [FIRST_USE]
        [found] = seen.findings
        stands = "is blocked in its first use of {}, where it waits for rank {}"
        assert text(found.message) == f"rank 0 {stands.format('e', 1)}, which {stands.format('d', 0)}"
        assert found.culprit is None, "either rank could change its order, so no rank is blamed"


async def captured(rank: Rank, warm: bool) -> Any:
    main = rank.stream("main")
    x = filled(main, [1])
    if warm:
        rank.device("d").all_reduce(x, main, site="warm_up")
        await x.read("warm")
    async with rank.graph("g").capture(main):
        rank.device("d").all_reduce(x, main, site="captured")
    return None


@pytest.mark.parametrize("warm", [True, False])
def test_a_first_use_in_a_capture_is_refused(warm: bool) -> None:
    """A first use within a capture raises CaptureError (mutant M-ST-7), unless the program has used the communicator
    before.
    """

    async def script(rank: Rank) -> Any:
        return await captured(rank, warm)

    for seen in everywhere(script, lazy()):
        assert ("CRASH:CAPTUREERROR" in seen.classes) != warm, seen.findings
    for seen in everywhere(script, usual_world()):
        assert "CRASH:CAPTUREERROR" not in seen.classes


async def pairs(rank: Rank) -> Any:
    """Ranks 0 and 1 exchange a transfer. Each pair has its own communicator, so no rank waits for rank 2."""
    main = rank.stream("main")
    x = filled(main, [rank.rank])
    if rank.rank == 0:
        rank.device("d").send(x, 1, main)
    elif rank.rank == 1:
        rank.device("d").recv(x, 0, main)
    return numbers(await x.read("read"))


def test_a_pair_meets_alone() -> None:
    for seen in everywhere(pairs, lazy(3)):
        assert seen.learned == [(0,), (0,), (2,)]


def ring(turned: bool) -> Script:
    """Each rank sends to the next rank first. With `turned`, rank 0 receives first."""

    async def script(rank: Rank) -> None:
        main, group = rank.stream("main"), rank.device("d")
        size = len(group.ranks)
        mine, theirs = filled(main, [rank.rank], "mine"), main.alloc(1, "int32", "theirs")
        if turned and not rank.rank:
            group.recv(theirs, size - 1, main)
        group.send(mine, (rank.rank + 1) % size, main)
        if not turned or rank.rank:
            group.recv(theirs, (rank.rank - 1) % size, main)

    return script


@pytest.mark.parametrize("ranks", [3, 10])
def test_a_ring_of_first_transfers_lists_its_ranks(ranks: int) -> None:
    [found] = judged(lazy(ranks), ring(turned=False))
    assert (found.klass, found.culprit and found.culprit.every) == (FIRST_USE, True)
    assert found.message.startswith(
        "rank 0 is blocked in its first transfer with rank 1, which is blocked in its first with rank 2"
    )
    assert found.message.endswith("rank 0")
    assert ("and so on through 6 more ranks" in found.message) == (ranks == 10)
    assert judged(lazy(ranks), ring(turned=True)) == []
    assert judged(usual_world(ranks), ring(turned=False)) == []


def test_a_ring_that_is_turned_is_proven() -> None:
    assert explored(lazy(3), ring(turned=True)).verdict == "proven"
    assert {one.klass for one in explored(lazy(3), ring(turned=False)).findings} == {FIRST_USE}


def test_two_that_send_first_to_one_another_have_met() -> None:
    """Two ranks that send to each other first share one communicator, so its creation completes. They hang in their
    sends.
    """
    found = explored(lazy(2), ring(turned=False)).findings
    assert {one.klass for one in found} == {"HANG:P2P:CROSSED_SENDS"}


def chain(right: bool) -> Script:
    """Rank 0 first calls a transfer with rank 1, and rank 1 with rank 2. Unless `right`, rank 2 first waits for a
    message of rank 0.
    """

    async def script(rank: Rank) -> None:
        main, group = rank.stream("main"), rank.device("d")
        x = filled(main, [rank.rank])
        if rank.rank == 2:
            if not right:
                await rank.mailbox("go").get("go")
            group.recv(x, 1, main, site="last")
        if rank.rank == 1:
            group.send(x, 2, main, site="second")
            group.recv(x, 0, main, site="third")
        if rank.rank == 0:
            group.send(x, 1, main, site="first")
            rank.send(2, "go", 1, "post")

    return script


def test_a_chain_ends_where_one_waits_for_something_else() -> None:
    found = judged(lazy(3), chain(right=False))
    [first] = [one for one in found if one.check == "deadlock"]
    assert first.klass == FIRST_USE
    assert first.message.startswith(
        "rank 0 is blocked in its first transfer with rank 1, "
        "which is blocked in its first with rank 2, which last called go ("
    )
    assert str(first.culprit).startswith("rank 0, step 0, first at tests/sim/test_lazy.py:")
    assert "let rank 2 make that call before it waits" in "".join(first.details)
    for world, right in ((lazy(3), True), (usual_world(3), False)):
        assert not [one for one in judged(world, chain(right)) if one.check == "deadlock"]


async def grouped(rank: Rank) -> None:
    """A coalesced group needs the communicator of all ranks, but rank 2 sends nothing and does not create it."""
    main, group = rank.stream("main"), rank.device("d")
    mine, theirs = filled(main, [rank.rank], "mine"), main.alloc(1, "int32", "theirs")
    if rank.rank < 2:
        with group.coalesced(main):
            group.send(mine, 1 - rank.rank, main, site="send")
            group.recv(theirs, 1 - rank.rank, main, site="recv")
    await mine.read("read")


@pytest.mark.parametrize("script", [crosswise, ring(turned=False), chain(right=False), grouped])
def test_the_journals_alone_show_which_hosts_block_in_a_first_use(script: Script) -> None:
    """A real backend does not report which hosts are blocked in a first use. The checks find the same from the journals
    alone. If the communicators exist from the start, they report no blocked first use.
    """
    stopped = done(lazy(3), script)
    assert stopped.standing
    journals = replace(stopped, standing=())
    assert judge(lazy(3), journals) == judge(lazy(3), stopped)
    assert FIRST_USE in {one.klass for one in judge(lazy(3), journals)}
    assert FIRST_USE not in {one.klass for one in judge(usual_world(3), journals)}


def test_a_full_launch_queue_is_reported_with_lazy_communicators() -> None:
    """Both ranks have created the communicator. Rank 1 waits for a message of rank 0, whose launch queue is full. The
    finding names the launch queue, not a first use.
    """

    async def script(rank: Rank) -> None:
        main, group = rank.stream("main"), rank.device("d")
        x = filled(main, [1])
        group.all_reduce(x, main, site="meet")
        await x.read("read")
        if rank.rank == 0:
            for _ in range(3):
                group.all_reduce(x, main, site="ahead")
            rank.send(1, "go", 1, "post")
        else:
            await rank.mailbox("go").get("go")
            for _ in range(3):
                group.all_reduce(x, main, site="behind")

    found = judged(replace(lazy(), launch_queue=1), script)
    assert [one.klass for one in found] == ["HANG:HOST:LAUNCH_QUEUE"]


@pytest.mark.parametrize("script", [sums, crosswise, pairs], ids=lambda script: script.__name__)
def test_dpor_sees_what_all_schedules_show(script: Any) -> None:
    world = replace(world_of(3 if script is pairs else 2, devices=["d", "e"]), lazy=True)

    async def alone(rank: Rank) -> None:
        await script(rank)

    program: Program[Any] = Scripted(alone)
    assert missed(Case(script.__name__, world, program)) == (0, 0, 0)
