"""Tests ranks that all send first, or all receive first: the report says which rank blocks before which call. Each hang
has a healthy twin.
"""

from __future__ import annotations

import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.world import CommunicatorSpec, World
from dpsim.diagnose.words import text
from dpsim.diagnose.words.told import Told
from tests.checks.handmade import Made
from tests.programs import Script, explored, judged, world_of
from tests.sim.programs import filled

SENDS, RECEIVES = "HANG:P2P:CROSSED_SENDS", "HANG:P2P:CROSSED_RECVS"


def on_stream(*orders: str, streams: str = "main main", communicators: str = "pp pp") -> Made:
    """Each rank sends to the next rank and receives from the one before, in its order ("send recv"). `streams` are
    those of the first and of the second call. `communicators`: the first is that of rank 0's sends, the second that of
    all others. Then the host waits for the second stream.
    """
    made, size, on = Made(len(orders)), len(orders), communicators.split()
    for hand, order in zip(made.hands, orders, strict=True):
        for op, stream in zip(order.split(), streams.split(), strict=True):
            peer = (hand.rank + (1 if op == "send" else -1)) % size
            sender = hand.rank if op == "send" else peer
            hand.transfer(op, peer, stream, communicator=on[min(sender, 1)])
        hand.begin_read(streams.split()[1])
    return made


def only(made: Made) -> Told:
    [found] = made.findings(*["blocked"] * len(made.hands))
    return found


def test_the_report_names_the_order_and_the_cure() -> None:
    found = only(on_stream("send recv", "send recv"))
    assert (found.klass, str(found.culprit)) == (SENDS, "every rank, step 0, send at here.py:0")
    assert found.message == ("each of ranks 0, 1 is blocked in a send, before the receive for which another one waits")
    assert found.details == (
        "rank 0 blocks in its send to rank 1 (send on pp #0, here.py:0), "
        "before its recv from rank 1 (recv on pp #0, here.py:1)",
        "rank 1 blocks in its send to rank 0 (send on pp #0, here.py:0), "
        "before its recv from rank 0 (recv on pp #0, here.py:1)",
        "to let them pass: issue both as one group (`coalesced`), or let one of these ranks receive first",
    )


@pytest.mark.parametrize("size", [2, 3, 4, 9])
def test_a_ring_hangs_unless_one_receives_first(size: int) -> None:
    for turned in range(size + 1):
        orders = ["recv send" if rank < turned else "send recv" for rank in range(size)]
        found = only(on_stream(*orders))
        assert found.klass == (SENDS if turned == 0 else RECEIVES if turned == size else "HANG:UNDECIDED"), orders


def test_many_ranks_are_reported_in_few_lines() -> None:
    details = only(on_stream(*["send recv"] * 9)).details
    assert (len(details), details[-2]) == (10, "and 1 more rank in a ring")


def test_crossed_receives_hang_and_are_reported_first() -> None:
    found = only(on_stream("recv send", "recv send"))
    assert found.klass == RECEIVES
    assert found.details[-1].endswith("or let one of these ranks send first")


@pytest.mark.parametrize(
    ("streams", "communicators", "klass"),
    [
        ("main side", "pp pp", SENDS),  # one communicator has one order, on all streams
        ("main main", "pp ep", SENDS),  # one stream has one order, for all communicators
        ("main side", "pp ep", "HANG:UNDECIDED"),  # nothing orders the two calls, so something else blocked the device
    ],
)
def test_one_stream_or_one_communicator_orders_the_two_calls(streams: str, communicators: str, klass: str) -> None:
    made = on_stream("send recv", "send recv", streams=streams, communicators=communicators)
    assert only(made).klass == klass


def test_two_communicators_have_no_group_of_both() -> None:
    found = only(on_stream("send recv", "send recv", communicators="pp ep"))
    assert found.details[-1] == "to let them pass: let one of these ranks receive first"


def test_a_send_that_had_ended_is_not_crossed() -> None:
    """The finding names the second sends: the hosts have read results that come after the first ones."""
    made = on_stream("send recv", "send recv")
    for hand in made.hands:
        hand.journal.pop()
        hand.read("main")
        hand.transfer("send", 1 - hand.rank, "main")
        hand.transfer("recv", 1 - hand.rank, "main")
        hand.begin_read("main")
    assert ["pp #1" in line for line in only(made).details[:2]] == [True, True]


def test_a_rank_that_waits_for_crossed_ranks_left_nothing_out() -> None:
    made = Made(3)
    for hand in made.hands[:2]:
        hand.transfer("send", 1 - hand.rank, "main")
        hand.transfer("recv", 1 - hand.rank, "main")
        hand.begin_read("main")
    made[2].collective("cpu", None)
    assert [found.klass for found in made.findings(*["blocked"] * 3)] == [SENDS]


def test_a_collective_between_them_makes_it_an_inversion() -> None:
    for crossed in (True, False):
        made = Made(2)
        made[0].transfer("send", 1, "main")
        made[0].collective("dp", "main")
        for call in ("dp", "recv") if crossed else ("recv", "dp"):
            if call == "dp":
                made[1].collective("dp", "main")
            else:
                made[1].transfer("recv", 0, "main")
        for hand in made.hands:
            hand.begin_read("main")
        found = only(made)
        assert found.klass == ("HANG:COLLECTIVE:ORDER_ACROSS_GROUPS" if crossed else "HANG:UNDECIDED")
        assert ("and sends last until they are received" in found.message) == crossed


# ---- on the simulation


def exchange(right: str) -> Script:
    """Neighbours of a ring exchange data. `right`: "group" or "turned" avoids that all ranks send first; ""
    does not.
    """

    async def script(rank: Rank) -> None:
        main, group = rank.stream("main"), rank.device("p")
        size = len(group.ranks)
        to, of = (rank.rank + 1) % size, (rank.rank - 1) % size
        mine, theirs = filled(main, [rank.rank] * 4, "mine"), main.alloc(4, "int32", "theirs")
        if right == "group":
            with group.coalesced(main):
                group.send(mine, to, main)
                group.recv(theirs, of, main)
        elif right == "turned" and rank.rank == 0:
            group.recv(theirs, of, main)
            group.send(mine, to, main)
        else:
            group.send(mine, to, main)
            group.recv(theirs, of, main)
        assert int((await theirs.read("read"))[0]) == of

    return script


@pytest.mark.parametrize("ranks", [2, 3])
def test_exploring_finds_the_ring_and_proves_both_cures(ranks: int) -> None:
    told = world_of(ranks, devices=["p"])
    assert judged(told, exchange("")) == [], "a small send ends early in a run with time"
    found = explored(told, exchange(""))
    assert {one.klass for one in found.findings} == {SENDS}
    for right in ("group", "turned"):
        assert explored(told, exchange(right)).verdict == "proven"


async def pairs(rank: Rank) -> None:
    """Ranks 0 and 1 both send first on their communicator; ranks 1 and 2 send and receive correctly on theirs."""
    main = rank.stream("main")
    mine, theirs = filled(main, [rank.rank] * 4, "mine"), main.alloc(4, "int32", "theirs")
    if rank.rank < 2:
        rank.device("left").send(mine, 1 - rank.rank, main)
        rank.device("left").recv(theirs, 1 - rank.rank, main)
    if rank.rank == 1:
        rank.device("right").send(mine, 2, main)
    if rank.rank == 2:
        rank.device("right").recv(theirs, 1, main)
    await theirs.read("read")


def test_a_pair_of_three_ranks_is_named_and_the_third_is_not() -> None:
    members = {"left": (0, 1), "right": (1, 2)}
    told = World(3, tuple(CommunicatorSpec(name, name, "device", ranks) for name, ranks in members.items()))
    [found] = {str(one.culprit) + text(one.message): one for one in explored(told, pairs).findings}.values()
    assert (found.klass, found.culprit and found.culprit.ranks) == (SENDS, (0, 1))
