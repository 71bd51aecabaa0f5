"""Tests of sends and receives: when a send ends, which slot a transfer occupies, what it orders, and what is left
over.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from dpsim.contract.interface import Rank
from dpsim.diagnose.words import text
from tests.programs import Script, explored, judged, set_to, world_of
from tests.soundness.worlds import filled, shows

# ---- which sends are eager


async def second_host_send_waits(rank: Rank) -> None:
    """Rank 0 sends a message after each of two sends. If rank 1 learns that the first send has ended before any
    receive, it waits for the second message before it receives.
    """
    host, box = rank.host("h"), rank.mailbox("told")
    if rank.rank == 0:
        for number in (1, 2):
            await host.send(np.ones(1, np.int32), 1, site="send")
            rank.send(1, "told", number, "tell")
        return
    if await box.poll("poll") is not None:
        await box.get("wait")
    for _ in range(2):
        await host.recv(1, "int32", 0, site="recv")


async def second_device_send_waits(rank: Rank) -> None:
    """Like `second_host_send_waits`, but the transfers are on the device."""
    device, main, box = rank.device("d"), rank.stream("main"), rank.mailbox("told")
    x = filled(main, "x")
    if rank.rank == 0:
        for number in (1, 2):
            device.send(x, 1, main)
            await main.record().synchronize("sent")
            rank.send(1, "told", number, "tell")
        return
    if await box.poll("poll") is not None:
        await box.get("wait")
    for _ in range(2):
        device.recv(x, 0, main)


def test_a_host_send_may_end_early_and_the_next_one_not() -> None:
    """Explores `second_host_send_waits`, which can hang: a buffer that holds one send but not two makes rank 1 wait
    without end.
    """
    assert shows(explored(world_of(2, hosts=["h"]), second_host_send_waits), "HANG")


def test_a_device_send_may_end_early_and_the_next_one_not() -> None:
    """Explores `second_device_send_waits`, which can hang. NCCL ends a send early if its data fits into the
    connection's FIFO, and the next send may find the FIFO full.
    """
    assert shows(explored(world_of(2, devices=["d"]), second_device_send_waits), "HANG")


# ---- which slot a transfer occupies


async def receive_before_a_collective(rank: Rank) -> None:
    """Rank 0 waits on a side stream for data that rank 1 sends only after the collective."""
    device, peer = rank.device("d"), rank.device("p")
    main, side = rank.stream("main"), rank.stream("side")
    x, y = filled(main, "x"), filled(side, "y")
    if rank.rank == 0:
        peer.recv(y, 1, side)
        device.all_reduce(x, main)
    else:
        device.all_reduce(x, main)
        side.wait_stream(main)
        peer.send(y, 0, side)


def test_a_transfer_takes_a_slot() -> None:
    """Explores `receive_before_a_collective` with one slot, so that it can hang. The kernel of a receive waits on the
    GPU like the kernel of a collective, and occupies a slot.
    """
    assert shows(explored(world_of(2, devices=["d", "p"], residency=1), receive_before_a_collective), "HANG")


def test_the_report_names_the_holders_of_slots() -> None:
    (finding,) = explored(world_of(2, devices=["d", "p"], residency=1), receive_before_a_collective).findings
    assert finding.klass == "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS"
    assert "1 place: rank 0: p from rank 1 to 0 #0 before d #0; rank 1: d #0 before p from rank 1" in text(
        finding.message
    )
    *_, first, second = map(text, finding.details)
    assert first.startswith(
        "rank 0: its only slot is held by recv int32[4] from rank 1 on p #0 (p.recv, tests/soundness/"
    )
    assert re.search(r"; all_reduce int32\[4\] on d #0 \(d.all_reduce, [^)]*, step 0\) waits for one$", first)
    assert second.startswith(
        "rank 1: its only slot is held by all_reduce int32[4] on d #0 (d.all_reduce, tests/soundness/"
    )
    assert "waits" not in second


async def receive_of_a_send_that_is_left_out(rank: Rank) -> None:
    """Rank 0 receives what no rank sends, so it hangs. Enough slots are free."""
    if rank.rank == 0:
        rank.device("p").recv(filled(rank.stream("side"), "y"), 1, rank.stream("side"))


def test_slots_are_named_only_if_a_rank_waits() -> None:
    for residency in (1, 2):
        world = world_of(2, devices=["p"], residency=residency)
        (finding,) = explored(world, receive_of_a_send_that_is_left_out).findings
        assert finding.klass == "HANG:P2P:UNMATCHED_RECV"
        assert not any("slot" in line for line in (text(finding.message), *map(text, finding.details)))


def test_a_transfer_and_a_collective_fit_into_two_slots() -> None:
    assert explored(world_of(2, devices=["d", "p"], residency=2), receive_before_a_collective).verdict == "proven"


# ---- what a transfer orders


def answers_within_a_group(receive_first: bool, waits: bool) -> Script:
    """Rank 0 sends x in one group with a receive that follows another stream's write of x. `waits`: the stream of the
    group waits for the write.
    """

    async def script(rank: Rank) -> None:
        a, b, left, right = rank.device("a"), rank.device("b"), rank.stream("left"), rank.stream("right")
        x, y, z = (filled(left, site) for site in "xyz")
        right.wait_stream(left)
        if rank.rank == 1:
            a.recv(z, 0, left)
            with b.coalesced(left):
                b.recv(x, 0, left)
                b.send(y, 0, left)
            return
        left.launch("write.x", set_to, writes=[x], args=(2,))
        a.send(z, 1, left)
        if waits:
            right.wait_stream(left)
        with b.coalesced(right):
            if receive_first:
                b.recv(y, 1, right)
            b.send(x, 1, right)
            if not receive_first:
                b.recv(y, 1, right)

    return script


@pytest.mark.parametrize(
    "receive_first", [pytest.param(False, id="send first"), pytest.param(True, id="receive first")]
)
def test_transfers_of_a_group_do_not_order_one_another(receive_first: bool) -> None:
    """Explores `answers_within_a_group` without the wait. Transfers of a coalesced group have no order, in whichever
    order the program lists them. So the send may read x while the other stream writes it.
    """
    assert shows(explored(world_of(2, devices=["a", "b"]), answers_within_a_group(receive_first, False)), "RACE")


@pytest.mark.parametrize("receive_first", [False, True])
def test_a_group_of_transfers_is_ordered_after_the_wait_of_its_stream(receive_first: bool) -> None:
    assert explored(world_of(2, devices=["a", "b"]), answers_within_a_group(receive_first, True)).verdict == "proven"


def overwrites_what_was_received(grouped: bool, told: bool) -> Script:
    """Rank 0 sends x, together with a receive if `grouped`, and overwrites x on another stream. `told`: it first waits
    for a message that rank 1 has received x.
    """

    async def script(rank: Rank) -> None:
        device, main, side = rank.device("d"), rank.stream("main"), rank.stream("side")
        x, y = filled(main, "x"), filled(main, "y")
        side.wait_stream(main)
        if rank.rank == 0:
            if grouped:
                with device.coalesced(side):
                    device.recv(y, 1, side)
                    device.send(x, 1, side)
            else:
                device.send(x, 1, side)
            if told:
                await rank.mailbox("told").get("wait")
            main.launch("overwrite", set_to, writes=[x], args=(2,))
        else:
            device.recv(x, 0, main)
            await x.read("read")
            rank.send(0, "told", True, "tell")
            if grouped:
                device.send(y, 0, main)

    return script


@pytest.mark.parametrize("grouped", [False, True])
def test_a_received_message_shows_that_the_senders_memory_was_read(grouped: bool) -> None:
    world = world_of(2, devices=["d"])
    assert explored(world, overwrites_what_was_received(grouped, told=True)).verdict == "proven"
    assert shows(explored(world, overwrites_what_was_received(grouped, told=False)), "RACE")


def overwrites_what_was_acknowledged(named: bool) -> Script:
    """Rank 0 sends to two peers, and overwrites the memory after two acknowledgements. `named`: an acknowledgement
    contains the sender.
    """

    async def script(rank: Rank) -> None:
        device, main, side = rank.device("d"), rank.stream("main"), rank.stream("side")
        if rank.rank:
            y = main.alloc(4, "int32", "y")
            device.recv(y, 0, main)
            await y.read("read")
            rank.send(0, "acks", rank.rank if named else "ok", "acknowledge")
            return
        x = filled(main, "x")
        side.wait_stream(main)
        for peer in (1, 2):
            device.send(x, peer, side)
        for _ in range(2):
            await rank.mailbox("acks").get("count")
        main.launch("overwrite", set_to, writes=[x], args=(2,))

    return script


@pytest.mark.parametrize("named", [pytest.param(False, id="equal"), pytest.param(True, id="named")])
def test_counted_acknowledgements_order_an_overwrite(named: bool) -> None:
    """Explores `overwrites_what_was_acknowledged`. A rank that has counted both acknowledgements knows that both peers
    have the data, even if the messages are equal.
    """
    assert explored(world_of(3, devices=["d"]), overwrites_what_was_acknowledged(named)).verdict == "proven"


# ---- what is left over


async def sends_once_too_often(rank: Rank) -> None:
    if rank.rank == 0:
        for _ in range(2):
            await rank.host("h").send(np.ones(1, np.int32), 1)
    else:
        await rank.host("h").recv(1, "int32", 0)


async def forgets_a_send(rank: Rank) -> None:
    """Rank 0 does not await its second send, which no rank receives."""
    if rank.rank == 0:
        await rank.host("h").send(np.ones(1, np.int32), 1)
        rank.host("h").send(np.ones(1, np.int32), 1)
    else:
        await rank.host("h").recv(1, "int32", 0)


async def forgets_a_receive(rank: Rank) -> None:
    """Rank 0 does not await a receive for which no rank sends."""
    if rank.rank == 0:
        rank.host("h").recv(1, "int32", 1)


async def leaves_nothing(rank: Rank) -> None:
    if rank.rank == 0:
        await rank.host("h").send(np.ones(1, np.int32), 1)
    else:
        await rank.host("h").recv(1, "int32", 0)


LEFT_OVER = [sends_once_too_often, forgets_a_send, forgets_a_receive]


@pytest.mark.parametrize("script", LEFT_OVER)
def test_a_timed_run_reports_what_is_left_over(script: Script) -> None:
    """Checks that a timed run reports left-over transfers. A transfer without a partner shifts all later ones, and an
    operation that no rank awaits may fail unnoticed.
    """
    assert judged(world_of(2, hosts=["h"]), script)


@pytest.mark.parametrize("script", LEFT_OVER)
def test_exploring_reports_what_is_left_over(script: Script) -> None:
    """Checks that exploring reports left-over transfers, which are left over in every schedule."""
    assert explored(world_of(2, hosts=["h"]), script).verdict == "violated"


def test_nothing_is_reported_where_nothing_is_left() -> None:
    world = world_of(2, hosts=["h"])
    assert not judged(world, leaves_nothing)
    assert explored(world, leaves_nothing).verdict == "proven"
