"""Tests of collectives: which members wait for which, which accesses they order, and which slots they occupy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import numpy as np
import pytest

from dpsim.contract.interface import Buffer, DeviceCommunicator, HostArray, HostCommunicator, Rank, Stream
from tests.programs import Script, copy, explored, world_of
from tests.soundness.worlds import filled, shows

TOLD_EARLY = "CRASH:ASSERTIONERROR"

# ---- which members wait for which


async def host_broadcast(host: HostCommunicator) -> HostArray:
    return await host.broadcast(np.ones(1, np.int32), 0)


async def host_all_to_all(host: HostCommunicator) -> HostArray:
    """Calls an all_to_all in which rank 1 has no element for rank 0."""
    if host.index == 0:
        return await host.all_to_all(np.ones(2, np.int32), source_sizes=[1, 1], output_sizes=[1, 0])
    return await host.all_to_all(np.ones(1, np.int32), source_sizes=[0, 1], output_sizes=[1, 1])


async def host_all_reduce_of_nothing(host: HostCommunicator) -> HostArray:
    return await host.all_reduce(np.zeros(0, np.int32))


async def host_all_reduce(host: HostCommunicator) -> HostArray:
    return await host.all_reduce(np.ones(1, np.int32))


async def host_barrier(host: HostCommunicator) -> HostArray:
    return await host.barrier()


async def host_reduce(host: HostCommunicator) -> HostArray:
    return await host.reduce(np.ones(1, np.int32), 1)


async def host_reduce_for_the_first(host: HostCommunicator) -> HostArray:
    return await host.reduce(np.ones(1, np.int32), 0)


async def host_gather(host: HostCommunicator) -> HostArray:
    return await host.gather(np.ones(1, np.int32), 1)


async def host_gather_for_the_first(host: HostCommunicator) -> HostArray:
    return await host.gather(np.ones(1, np.int32), 0)


async def host_scatter(host: HostCommunicator) -> HostArray:
    return await host.scatter(np.ones(2, np.int32), 0)


async def host_scatter_of_the_other(host: HostCommunicator) -> HostArray:
    return await host.scatter(np.ones(2, np.int32), 1)


def device_reduce(device: DeviceCommunicator, stream: Stream) -> Buffer:
    """Calls a reduce whose root is rank 1."""
    buffer = filled(stream, "x")
    device.reduce(buffer, 1, stream)
    return buffer


def device_broadcast(device: DeviceCommunicator, stream: Stream) -> Buffer:
    buffer = filled(stream, "x")
    device.broadcast(buffer, 0, stream)
    return buffer


def device_all_reduce_of_nothing(device: DeviceCommunicator, stream: Stream) -> Buffer:
    device.all_reduce(filled(stream, "nothing", 0), stream)
    return filled(stream, "x")


def device_all_reduce(device: DeviceCommunicator, stream: Stream) -> Buffer:
    buffer = filled(stream, "x")
    device.all_reduce(buffer, stream)
    return buffer


async def _heard(rank: Rank, late: int) -> bool:
    """Returns whether this rank is the late one and already has a message."""
    return rank.rank == late and await rank.mailbox("told").poll("poll") is not None


def through_on_the_host(call: Callable[[HostCommunicator], Awaitable[HostArray]]) -> Script:
    """Returns a script: rank 0 sends to rank 1 after the call has ended; rank 1 polls before it makes the call."""

    async def script(rank: Rank) -> None:
        assert not await _heard(rank, 1), "rank 0 was through before rank 1 came"
        await call(rank.host("h"))
        if rank.rank == 0:
            rank.send(1, "told", True, "tell")

    return script


def through_on_the_device(call: Callable[[DeviceCommunicator, Stream], Buffer], first: int, late: int) -> Script:
    """Returns a script: rank `first` sends to rank `late` after its stream has ended the call; `late` polls before it
    makes the call.
    """

    async def script(rank: Rank) -> None:
        assert not await _heard(rank, late), f"rank {first} was through before rank {late} came"
        await call(rank.device("d"), rank.stream("main")).read("read")
        if rank.rank == first:
            rank.send(late, "told", True, "tell")

    return script


def test_the_root_of_a_host_broadcast_waits_for_no_rank() -> None:
    """Explores a broadcast. Its root can end before the other member arrives, because the root has its data already.
    gloo behaves so for members that get the data from another member.
    """
    assert shows(explored(world_of(2, hosts=["h"]), through_on_the_host(host_broadcast)), TOLD_EARLY)


def test_a_host_all_to_all_waits_for_no_empty_piece() -> None:
    """Explores an all_to_all in which rank 1 has no element for rank 0. So rank 0 can end before rank 1 arrives."""
    assert shows(explored(world_of(2, hosts=["h"]), through_on_the_host(host_all_to_all)), TOLD_EARLY)


def test_receivers_of_a_device_broadcast_do_not_wait_for_each_other() -> None:
    """Explores a broadcast of three ranks. Rank 1 can end before rank 2 arrives, as the last rank of NCCL's chain."""
    assert shows(explored(world_of(3, devices=["d"]), through_on_the_device(device_broadcast, 1, 2)), TOLD_EARLY)


def test_a_device_collective_of_nothing_is_no_meeting() -> None:
    """Explores an all_reduce without elements. No rank waits, because NCCL discards such a call when the host issues
    it.
    """
    world = world_of(2, devices=["d"])
    assert shows(explored(world, through_on_the_device(device_all_reduce_of_nothing, 0, 1)), TOLD_EARLY)


def test_a_host_collective_of_nothing_is_no_meeting() -> None:
    """Explores an all_reduce without elements on the host. No rank waits, because gloo returns at once."""
    assert shows(explored(world_of(2, hosts=["h"]), through_on_the_host(host_all_reduce_of_nothing)), TOLD_EARLY)


def test_a_contributor_to_a_reduce_waits_for_no_member() -> None:
    """Explores a reduce. A member that is not the root can end before the others arrive, because the library has sent
    or copied its elements.
    """
    assert shows(explored(world_of(2, hosts=["h"]), through_on_the_host(host_reduce)), TOLD_EARLY)
    world = world_of(3, devices=["d"])
    for late in (1, 2):
        assert shows(explored(world, through_on_the_device(device_reduce, 0, late)), TOLD_EARLY)


def test_the_root_of_a_device_reduce_waits_for_all() -> None:
    world = world_of(3, devices=["d"])
    for late in (0, 2):
        assert explored(world, through_on_the_device(device_reduce, 1, late)).verdict == "proven"


@pytest.mark.parametrize("call", [host_gather, host_scatter])
def test_a_sender_waits_for_no_member(
    call: Callable[[HostCommunicator], Awaitable[HostArray]],
) -> None:
    assert shows(explored(world_of(2, hosts=["h"]), through_on_the_host(call)), TOLD_EARLY)


@pytest.mark.parametrize(
    "call",
    [host_all_reduce, host_barrier, host_reduce_for_the_first, host_gather_for_the_first, host_scatter_of_the_other],
)
def test_a_host_collective_of_something_is_a_meeting(call: Callable[[HostCommunicator], Awaitable[HostArray]]) -> None:
    assert explored(world_of(2, hosts=["h"]), through_on_the_host(call)).verdict == "proven"


def test_a_device_collective_of_something_is_a_meeting() -> None:
    world = world_of(3, devices=["d"])
    assert explored(world, through_on_the_device(device_all_reduce, 1, 2)).verdict == "proven"


def test_a_device_broadcast_waits_for_its_root() -> None:
    world = world_of(3, devices=["d"])
    assert explored(world, through_on_the_device(device_broadcast, 1, 0)).verdict == "proven"


# ---- which accesses they order


def uses_after_a_peer(waits: bool) -> Script:
    """Returns a script: rank 1 ends a collective and sends. Rank 0 receives on the side stream, and uses its own result
    there. `waits`: the side stream also waits for the collective.
    """

    async def script(rank: Rank) -> None:
        device, peer = rank.device("d"), rank.device("e")
        main, side = rank.stream("main"), rank.stream("side")
        x, token, result = filled(main, "x"), filled(main, "token"), main.alloc(4, "int32", "result")
        side.wait_stream(main)
        device.all_reduce(x, main)
        if rank.rank == 1:
            peer.send(token, 0, main)
            return
        if waits:
            side.wait_stream(main)
        peer.recv(token, 1, side)
        side.launch("use", copy, reads=[x], writes=[result])

    return script


def test_a_peer_that_has_finished_a_collective_does_not_show_that_this_rank_has() -> None:
    """Explores `uses_after_a_peer` without the wait. The receive shows that rank 0 has joined the collective, but not
    that rank 0's own result is written. So the use of the result is a race.
    """
    assert shows(explored(world_of(2, devices=["d", "e"]), uses_after_a_peer(waits=False)), "RACE")


def test_a_stream_that_waits_for_its_own_collective_may_use_it() -> None:
    assert explored(world_of(2, devices=["d", "e"]), uses_after_a_peer(waits=True)).verdict == "proven"


def one_communicator_on_two_streams(waits: bool) -> Script:
    """Returns a script with two collectives of one communicator on the same memory. `waits`: the second stream waits
    for the first one.
    """

    async def script(rank: Rank) -> None:
        device, main, side = rank.device("d"), rank.stream("main"), rank.stream("side")
        x = filled(main, "x")
        side.wait_stream(main)
        device.all_reduce(x, main, site="first")
        if waits:
            side.wait_stream(main)
        device.all_reduce(x, side, site="second")

    return script


@pytest.mark.parametrize("waits", [pytest.param(False, id="order of issue"), pytest.param(True, id="an event")])
def test_a_communicator_orders_its_collectives_across_streams(waits: bool) -> None:
    """Explores `one_communicator_on_two_streams` with and without the wait. A device communicator orders its
    collectives even without an event, so neither has a race.
    """
    assert explored(world_of(2, devices=["d"]), one_communicator_on_two_streams(waits)).verdict == "proven"


# ---- which slots they occupy


async def two_streams_one_slot(rank: Rank) -> None:
    device, main, side = rank.device("d"), rank.stream("main"), rank.stream("side")
    x, y = filled(main, "x"), filled(side, "y")
    device.all_reduce(x, main, site="first")
    device.all_reduce(y, side, site="second")


@pytest.mark.parametrize("slots", [1, 2])
def test_a_collective_takes_no_slot_before_its_turn(slots: int) -> None:
    """Explores two collectives on two streams. The second one follows the first in the order of the communicator. So it
    takes no slot before the first has left it, and one slot suffices.
    """
    assert explored(world_of(2, devices=["d"], residency=slots), two_streams_one_slot).verdict == "proven"


async def crossed(rank: Rank) -> None:
    """Calls the collectives of two communicators, each on its own stream; the two ranks do so in opposite order."""
    calls = [(rank.device(kind), filled(rank.stream(kind), kind), rank.stream(kind)) for kind in ("a", "b")]
    for device, buffer, stream in calls if rank.rank == 0 else reversed(calls):
        device.all_reduce(buffer, stream)


def test_a_verdict_names_the_residency_that_it_assumes() -> None:
    """Explores crossed collectives with unlimited slots. They hang on a GPU, which runs a limited number of waiting
    kernels. So the verdict must state the assumption "unlimited residency".
    """
    assert "unlimited residency" in explored(world_of(2, devices=["a", "b"]), crossed).summary()


def test_crossed_communicators_hang_in_one_slot() -> None:
    result = explored(world_of(2, devices=["a", "b"], residency=1), crossed)
    assert shows(result, "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS")
    assert "unlimited residency" not in result.summary()
