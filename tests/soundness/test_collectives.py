"""Collectives: who waits for whom in them, what they order, and what they occupy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import numpy as np
import pytest

from dpsim.contract.interface import Buffer, DeviceCommunicator, HostArray, HostCommunicator, Rank, Stream
from tests.programs import Script, copy, explored, world_of
from tests.soundness.worlds import filled, shows

TOLD_EARLY = "CRASH:ASSERTIONERROR"

# ---- who waits for whom


async def host_broadcast(host: HostCommunicator) -> HostArray:
    return await host.broadcast(np.ones(1, np.int32), 0)


async def host_all_to_all(host: HostCommunicator) -> HostArray:
    """Rank 1 has nothing for rank 0."""
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
    """Rank 1 is the root."""
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
    """Whether this rank is the late one and has a message already."""
    return rank.rank == late and await rank.mailbox("told").poll("poll") is not None


def through_on_the_host(call: Callable[[HostCommunicator], Awaitable[HostArray]]) -> Script:
    """Rank 0 tells rank 1 when it is through; rank 1 looks before it comes."""

    async def script(rank: Rank) -> None:
        assert not await _heard(rank, 1), "rank 0 was through before rank 1 came"
        await call(rank.host("h"))
        if rank.rank == 0:
            rank.send(1, "told", True, "tell")

    return script


def through_on_the_device(call: Callable[[DeviceCommunicator, Stream], Buffer], first: int, late: int) -> Script:
    """Rank `first` tells rank `late` when its stream is through; `late` looks before it comes."""

    async def script(rank: Rank) -> None:
        assert not await _heard(rank, late), f"rank {first} was through before rank {late} came"
        await call(rank.device("d"), rank.stream("main")).read("read")
        if rank.rank == first:
            rank.send(late, "told", True, "tell")

    return script


def test_the_root_of_a_host_broadcast_waits_for_nobody() -> None:
    """A root has its data already. A library that buffers lets it go on; gloo lets it go on before the members arrive
    that get the data from others.
    """
    assert shows(explored(world_of(2, hosts=["h"]), through_on_the_host(host_broadcast)), TOLD_EARLY)


def test_a_host_all_to_all_waits_for_no_empty_piece() -> None:
    """Nothing comes from rank 1, so the contract gives rank 0 nothing to wait for."""
    assert shows(explored(world_of(2, hosts=["h"]), through_on_the_host(host_all_to_all)), TOLD_EARLY)


def test_receivers_of_a_device_broadcast_do_not_wait_for_each_other() -> None:
    """A receiver is through when it has the root's data; the chain may pass a late one last."""
    assert shows(explored(world_of(3, devices=["d"]), through_on_the_device(device_broadcast, 1, 2)), TOLD_EARLY)


def test_a_device_collective_of_nothing_is_no_meeting() -> None:
    """NCCL discards a collective without elements when it is issued."""
    world = world_of(2, devices=["d"])
    assert shows(explored(world, through_on_the_device(device_all_reduce_of_nothing, 0, 1)), TOLD_EARLY)


def test_a_host_collective_of_nothing_is_no_meeting() -> None:
    """An all_reduce of gloo returns at once if there is nothing to reduce."""
    assert shows(explored(world_of(2, hosts=["h"]), through_on_the_host(host_all_reduce_of_nothing)), TOLD_EARLY)


def test_who_gives_to_a_reduce_waits_for_no_member() -> None:
    """Its elements are on their way, or the library has copied them; what the root does with them is the root's."""
    assert shows(explored(world_of(2, hosts=["h"]), through_on_the_host(host_reduce)), TOLD_EARLY)
    world = world_of(3, devices=["d"])
    for late in (1, 2):
        assert shows(explored(world, through_on_the_device(device_reduce, 0, late)), TOLD_EARLY)


def test_the_root_of_a_device_reduce_waits_for_all() -> None:
    world = world_of(3, devices=["d"])
    for late in (0, 2):
        assert explored(world, through_on_the_device(device_reduce, 1, late)).verdict == "proven"


@pytest.mark.parametrize("call", [host_gather, host_scatter])
def test_a_root_that_gives_waits_for_no_member_nor_does_who_gives_to_one(
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


def test_nobody_is_through_a_device_broadcast_before_its_root_comes() -> None:
    world = world_of(3, devices=["d"])
    assert explored(world, through_on_the_device(device_broadcast, 1, 0)).verdict == "proven"


# ---- what they order


def uses_after_a_peer(waits: bool) -> Script:
    """Rank 1 is through with a collective and sends; rank 0 receives, and uses its own result on that stream.

    `waits`: the stream of that use waits for the collective too.
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


def test_that_a_peer_is_through_does_not_say_that_i_am() -> None:
    """That rank 1 has its sum says that rank 0 came, and not that rank 0 has written its own."""
    assert shows(explored(world_of(2, devices=["d", "e"]), uses_after_a_peer(waits=False)), "RACE")


def test_a_stream_that_waits_for_its_own_collective_may_use_it() -> None:
    assert explored(world_of(2, devices=["d", "e"]), uses_after_a_peer(waits=True)).verdict == "proven"


def one_communicator_on_two_streams(waits: bool) -> Script:
    """Two collectives of one communicator on the same memory. `waits`: the second stream waits for the first one."""

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
    """The contract of a device communicator promises that order, without an event."""
    assert explored(world_of(2, devices=["d"]), one_communicator_on_two_streams(waits)).verdict == "proven"


# ---- what they occupy


async def two_streams_one_slot(rank: Rank) -> None:
    device, main, side = rank.device("d"), rank.stream("main"), rank.stream("side")
    x, y = filled(main, "x"), filled(side, "y")
    device.all_reduce(x, main, site="first")
    device.all_reduce(y, side, site="second")


@pytest.mark.parametrize("slots", [1, 2])
def test_a_collective_takes_no_slot_before_its_turn(slots: int) -> None:
    """The second collective has to follow the first one, so its kernel does not start before that one has left the
    slot.
    """
    assert explored(world_of(2, devices=["d"], residency=slots), two_streams_one_slot).verdict == "proven"


async def crossed(rank: Rank) -> None:
    """The ranks make the collectives of two communicators in opposite order, each on a separate stream."""
    calls = [(rank.device(kind), filled(rank.stream(kind), kind), rank.stream(kind)) for kind in ("a", "b")]
    for device, buffer, stream in calls if rank.rank == 0 else reversed(calls):
        device.all_reduce(buffer, stream)


def test_a_verdict_names_the_residency_that_it_assumes() -> None:
    """A GPU has room for a limited number of waiting kernels, and then this world hangs. So the verdict has to say
    "assumes: no rank dies; unlimited residency".
    """
    assert "unlimited residency" in explored(world_of(2, devices=["a", "b"]), crossed).summary()


def test_crossed_communicators_hang_in_one_slot() -> None:
    result = explored(world_of(2, devices=["a", "b"], residency=1), crossed)
    assert shows(result, "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS")
    assert "unlimited residency" not in result.summary()
