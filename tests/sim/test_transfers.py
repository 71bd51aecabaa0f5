"""Tests sends and receives: which match, which rank waits for which, and on what a protocol may not rely.

A send may end before its receive (eager: it is small, or the schedule chose so). Or it blocks its stream or host until
the receive (rendezvous). A protocol that works only with eager sends hangs when its messages grow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpsim.contract.interface import Rank
from tests.programs import set_to, touch
from tests.sim.programs import Twins, everywhere, filled, holds, numbers, see, usual_world

twins = Twins()

LARGE = 40_000  # int32 elements: too large for an eager send


@twins("HANG:P2P:CROSSED_SENDS", learned=[(1, 40_000), (0, 40_000)], modes=["timed", "last"])
async def two_ranks_do_not_both_send_first(rank: Rank, right: bool) -> Any:
    """Two ranks exchange a large buffer on the device. In the faulty twin both send first, and hang in a timed run and
    under a schedule that chose rendezvous.
    """
    main, group, peer = rank.stream("main"), rank.device("d"), 1 - rank.rank
    out, came = filled(main, [rank.rank] * LARGE, "out"), main.alloc(LARGE, "int32", "came")
    sends = group.send, out
    receives = group.recv, came
    for call, buffer in (receives, sends) if right and rank.rank else (sends, receives):
        call(buffer, peer, main)
    content = await came.read("read")
    return int(content[0]), int((content == peer).sum())


@twins("HANG:P2P:CROSSED_SENDS", learned=[(1,) * 3, (0,) * 3], modes=["last"])
async def two_hosts_do_not_both_send_first(rank: Rank, right: bool) -> Any:
    """The same on hosts with a small message: the faulty twin hangs only under a schedule that chose rendezvous."""
    group, peer, mine = rank.host("h"), 1 - rank.rank, np.full(3, rank.rank, np.int32)
    if right and rank.rank:
        came = await group.recv(3, "int32", peer, site="recv")
        await group.send(mine, peer, site="send")
    else:
        await group.send(mine, peer, site="send")
        came = await group.recv(3, "int32", peer, site="recv")
    return numbers(came)


@twins("HANG:P2P:CROSSED_SENDS", learned=[(1, 40_000), (0, 40_000)], modes=["timed", "last"])
async def within_a_group_both_may_send_first(rank: Rank, right: bool) -> Any:
    """In one coalesced group both ranks may send first. In the faulty twin the send and the receive are in two
    groups.
    """
    main, group, peer = rank.stream("main"), rank.device("d"), 1 - rank.rank
    out, came = filled(main, [rank.rank] * LARGE, "out"), main.alloc(LARGE, "int32", "came")
    if right:
        with group.coalesced(main):
            group.send(out, peer, main)
            group.recv(came, peer, main)
    else:
        with group.coalesced(main):
            group.send(out, peer, main)
        with group.coalesced(main):
            group.recv(came, peer, main)
    content = await came.read("read")
    return int(content[0]), int((content == peer).sum())


@twins("RACE:BUFFER", learned=[(0, 1), (0, 1)])
async def within_a_group_there_is_no_order(rank: Rank, right: bool) -> Any:
    """The transfers of a coalesced group have no order. In the faulty twin a receive writes the memory of a send."""
    main, group, peer = rank.stream("main"), rank.device("d"), 1 - rank.rank
    x = filled(main, [rank.rank, rank.rank])
    mine, theirs = x.view(rank.rank, rank.rank + 1), x.view(peer, peer + 1)
    with group.coalesced(main):
        group.recv(theirs if right else mine, peer, main)
        group.send(mine, peer, main)
    return numbers(await x.read("read")) if right else None


@twins("RACE:BUFFER", learned=[None, (5,)])
async def a_group_blocks_its_stream_until_all_its_transfers_end(rank: Rank, right: bool) -> Any:
    main, side, group = rank.stream("main"), rank.stream("side"), rank.device("d")
    x = filled(main, [5 - 5 * rank.rank])
    side.wait_stream(main)
    with group.coalesced(main):
        if rank.rank == 0:
            group.send(x, 1, main)
        else:
            group.recv(x, 0, main)
    return numbers(await x.read("read", main if right else side)) if rank.rank else None


@twins("HANG:P2P:UNMATCHED_RECV", learned=[None, (1, 2, 3)])
async def transfers_of_a_pair_arrive_in_order(rank: Rank, right: bool) -> Any:
    """Transfers of a pair arrive in order. In the faulty twin the last of three receives has no send."""
    main, group = rank.stream("main"), rank.device("d")
    if rank.rank == 0:
        for value in (1, 2, 3) if right else (1, 2):
            group.send(filled(main, [value], "out"), 1, main)
        return None
    came = main.alloc(3, "int32", "came")
    for index in range(3):
        group.recv(came.view(index, index + 1), 0, main)
    return numbers(await came.read("read"))


@twins("HANG:P2P:UNMATCHED_RECV", learned=[None, (1, 2, 3)])
async def transfers_of_two_hosts_arrive_in_order(rank: Rank, right: bool) -> Any:
    group = rank.host("h")
    if rank.rank == 0:
        for value in (1, 2, 3) if right else (1, 2):
            await group.send(np.full(1, value, np.int32), 1)
        return None
    came = [group.recv(1, "int32", 0) for _ in range(3)]
    return (*numbers(await came[0]), *numbers(await came[1]), *numbers(await came[2]))


@twins("HANG:P2P:UNMATCHED_SEND", learned=[None, (1,)], modes=["timed", "last"], also=["LEFTOVER:SEND"])
async def a_large_send_has_to_be_received(rank: Rank, right: bool) -> Any:
    """A large send needs its receive. In the faulty twin the send hangs, or is left over if it was eager."""
    main, group = rank.stream("main"), rank.device("d")
    x = filled(main, [1 - rank.rank] * LARGE)
    if rank.rank == 0:
        group.send(x, 1, main)
        await x.read("read")
        return None
    if right:
        group.recv(x, 0, main)
    return (int((await x.read("read"))[0]),) if right else None


@twins("HANG:P2P", learned=[None, None, (0, 10)])
async def pairs_do_not_wait_for_one_another(rank: Rank, right: bool) -> Any:
    """Two senders send in any order, and the receiver names the sender of each receive. In the faulty twin it names one
    twice.
    """
    main, group = rank.stream("main"), rank.device("d")
    if rank.rank < 2:
        await rank.sleep(50_000 * (1 - rank.rank), "sleep")
        group.send(filled(main, [10 * rank.rank]), 2, main)
        return None
    came = main.alloc(2, "int32", "came")
    for index, source in enumerate((0, 1) if right else (0, 0)):
        group.recv(came.view(index, index + 1), source, main)
    return numbers(await came.read("read"))


@twins("HANG", learned=[None, (7,)])
async def communicators_have_separate_transfers(rank: Rank, right: bool) -> Any:
    main = rank.stream("main")
    x = filled(main, [7 - 7 * rank.rank])
    if rank.rank == 0:
        rank.device("d").send(x, 1, main)
        return None
    rank.device("d" if right else "e").recv(x, 0, main)
    return numbers(await x.read("read"))


@twins("RACE:BUFFER", learned=[(1,), (1,)])
async def a_receive_is_ordered_by_its_stream_only(rank: Rank, right: bool) -> Any:
    main, side, group = rank.stream("main"), rank.stream("side"), rank.device("d")
    x = filled(main, [1 - rank.rank])
    if rank.rank == 0:
        group.send(x, 1, main)
        return numbers(await x.read("read"))
    group.recv(x, 0, main)
    if right:
        side.wait_stream(main)
    side.launch("use", touch, reads=[x])
    return numbers(await x.read("read"))


@twins("RACE:BUFFER", learned=[(0,), (5,)], modes=["timed", "first", "last"])
async def memory_in_a_send_may_not_be_overwritten(rank: Rank, right: bool) -> Any:
    """Rank 0 waits on its stream for its send before it overwrites the buffer. In the faulty twin another stream does
    not wait.
    """
    main, side, group = rank.stream("main"), rank.stream("side"), rank.device("d")
    x = filled(main, [5 - 5 * rank.rank])
    if rank.rank == 1:
        group.recv(x, 0, main)
        return numbers(await x.read("read"))
    group.send(x, 1, main)
    if right:
        side.wait_stream(main)
    side.launch("overwrite", set_to, writes=[x], args=(0,))
    return numbers(await x.read("read", side))


@twins("CRASH:VALUEERROR", learned=[None, None], also=["HANG"])
async def a_peer_is_a_member(rank: Rank, right: bool) -> Any:
    if rank.rank == 0:
        await rank.host("h").send(np.ones(1, np.int32), 1 if right else 2)
    elif right:
        await rank.host("h").recv(1, "int32", 0)


@twins("CRASH:RUNTIMEERROR", learned=[None])
async def groups_are_not_nested(rank: Rank, right: bool) -> Any:
    main, group = rank.stream("main"), rank.device("d")
    with group.coalesced(main):
        if not right:
            with group.coalesced(main):
                pass


@twins("CRASH:VALUEERROR", learned=[(1,), (0,)], also=["HANG"])
async def a_peer_is_another_rank(rank: Rank, right: bool) -> Any:
    peer = 1 - rank.rank if right else rank.rank
    work = rank.host("h").recv(1, "int32", peer)
    await rank.host("h").send(np.full(1, rank.rank, np.int32), peer)
    return numbers(await work)


@twins("CRASH:VALUEERROR", learned=[(1,), (0,)])
async def a_group_is_on_one_stream(rank: Rank, right: bool) -> Any:
    main, side, group, peer = rank.stream("main"), rank.stream("side"), rank.device("d"), 1 - rank.rank
    x, came = filled(main, [rank.rank]), main.alloc(1, "int32", "came")
    with group.coalesced(main):
        group.send(x, peer, main if right else side)
        group.recv(came, peer, main)
    return numbers(await came.read("read"))


test_the_healthy_program_holds, test_the_wrong_twin_is_caught = twins.tests()


@pytest.mark.parametrize(("count", "ends"), [(16_384, "finished"), (16_385, "blocked")])
def test_a_timed_run_sends_up_to_64_kib_eagerly(count: int, ends: str) -> None:
    """In a timed run sends of up to 64 KiB are eager, by the table of costs."""

    async def script(rank: Rank) -> None:
        await rank.host("h").send(np.ones(count, np.int32), 1 - rank.rank)
        await rank.host("h").recv(count, "int32", 1 - rank.rank)

    assert see(script).run.ends == [ends] * 2


def test_an_untimed_send_is_eager_or_not_whatever_its_size() -> None:
    async def script(rank: Rank) -> None:
        await rank.host("h").send(np.ones(1, np.int32), 1 - rank.rank)
        await rank.host("h").recv(1, "int32", 1 - rank.rank)

    ends = {seen.mode: seen.run.ends for seen in everywhere(script)}
    assert ends["timed"] == ends["first"] == ["finished"] * 2
    assert ends["last"] == ["blocked"] * 2


def test_an_eager_send_reads_its_memory_in_stream_order() -> None:
    async def script(rank: Rank) -> Any:
        main, group = rank.stream("main"), rank.device("d")
        x = filled(main, [3 - 3 * rank.rank])
        if rank.rank == 1:
            await rank.sleep(500_000, "sleep")
            group.recv(x, 0, main)
            return numbers(await x.read("read"))
        group.send(x, 1, main)
        main.launch("overwrite", set_to, writes=[x], args=(4,))
        return None

    holds(script, [None, (3,)], usual_world(2))


UNEQUAL: dict[str, Any] = {
    "count, too few": ([1, 2], "int32", [0] * 3, "int32", (1, 2, 0)),
    "count, too many": ([1, 2, 3], "int32", [0] * 2, "int32", (1, 2)),
    "dtype, of another kind": ([1.0, -2.0], "float32", [0] * 2, "int32", (0x3F800000, -0x40000000)),
    "dtype, twice as long": ([1, 2], "int32", [0] * 2, "int64", (1 + (2 << 32), 0)),
    "dtype, half as long": ([1 + (2 << 32), 3], "int64", [0] * 2, "int32", (1, 2)),
}


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("device", [True, False], ids=["device", "host"])
@pytest.mark.parametrize("case", UNEQUAL)
def test_a_transfer_with_unequal_sides_is_a_finding_and_copies_bytes(case: str, device: bool, right: bool) -> None:
    """The checks report unequal counts or dtypes. A transfer copies bytes, and each side reads them as its own dtype.
    On a host that receives, missing bytes are zero.
    """
    sent, sent_as, room, read_as, comes = UNEQUAL[case]
    room, read_as, comes = (sent, sent_as, tuple(sent)) if right else (room, read_as, comes)

    async def script(rank: Rank) -> Any:
        main = rank.stream("main")
        if not device:
            if rank.rank == 1:
                return numbers(await rank.host("h").recv(len(room), read_as, 0))
            await rank.host("h").send(np.array(sent, sent_as), 1)
            return None
        if rank.rank == 0:
            rank.device("d").send(filled(main, sent, dtype=sent_as), 1, main)
            return None
        target = filled(main, [0] * len(room), dtype=read_as)
        rank.device("d").recv(target, 0, main)
        return numbers(await target.read("read"))

    klass = case.partition(",")[0].upper()
    for seen in everywhere(script):
        assert seen.classes == ([] if right else [f"MISMATCH:TRANSFER:{klass}"]), seen.mode
        assert seen.run.finished
        assert seen.learned == [None, comes], seen.mode


@pytest.mark.parametrize("odd", [None, 0, 1])
def test_the_side_of_a_pipeline_that_departs_from_its_usual_count_is_blamed(odd: int | None) -> None:
    async def script(rank: Rank) -> None:
        main = rank.stream("main")
        for rank.step in range(4):
            count = 5 if rank.step == 2 and rank.rank == odd else 4
            hidden = filled(main, [rank.step] * count, "hidden")
            if rank.rank == 0:
                rank.device("d").send(hidden, 1, main, site="give")
            else:
                rank.device("d").recv(hidden, 0, main, site="take")

    for seen in everywhere(script):
        culprits = [one.culprit and (one.culprit.rank, one.culprit.step, one.culprit.site) for one in seen.findings]
        assert culprits == ([] if odd is None else [(odd, 2, "give" if odd == 0 else "take")]), seen.mode
