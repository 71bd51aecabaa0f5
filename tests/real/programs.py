"""Small protocols for the tests of the real backends. The workers import this module by its name."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpsim.interface import Buffer, HostArray, Rank
from dpsim.registry import Program, register_protocol


@register_protocol("real_rounds")
class Rounds(Program):
    """`rounds` steps, each with an all_reduce on the host and one on the device; then a last one on the host."""

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        host, device, main = rank.host("dp_cpu"), rank.device("dp"), rank.stream("main")
        for rank.step in range(prepared["rounds"]):
            mine = np.full(4, rank.rank + 1, np.int64)
            rank.decide("host.sum", int((await host.all_reduce(mine, site="host")).sum()), "dp_cpu")
            buffer = main.alloc(4, "int64", "buffer")
            main.launch("fill", fill, writes=[buffer], args=(rank.rank + 1,))
            device.all_reduce(buffer, main, site="device")
            rank.decide("device.sum", int((await buffer.read("read")).sum()), "dp_cpu")
            buffer.free()
        rank.decide("end.sum", int((await host.all_reduce(np.ones(1, np.int32), site="end")).sum()), "dp_cpu")


@register_protocol("real_groups")
class Groups(Program):
    """In groups smaller than the world: sums, and broadcasts from the last member, named by its global rank."""

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        host, device, main = rank.host("dp_cpu"), rank.device("dp"), rank.stream("main")
        rank.step = 0
        mine, root = np.full((2, 3), 10.0**rank.rank, np.float32), host.ranks[-1]
        total = host.all_reduce(mine, site="sum")  # started, awaited after the device has been given its work
        buffer = main.alloc((2, 3), "int32", "buffer")
        main.launch("fill", fill, writes=[buffer], args=(rank.rank,))
        device.broadcast(buffer, device.ranks[-1], main, site="device.last")
        rank.decide("sum", tuple((await total).reshape(-1).tolist()), "dp_cpu")
        rank.decide("last", float((await host.broadcast(mine, root, site="last")).max()), "dp_cpu")
        rank.decide("device.last", tuple((await buffer.read("read")).reshape(-1).tolist()), "dp")


@register_protocol("real_misbehaves")
class Misbehaves(Program):
    """Rank 1 does what `how` says. With `wait` the ranks meet in an all_reduce afterwards, or would if they could."""

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        rank.step = 7
        if rank.rank == 1:
            await getattr(self, prepared["how"])(rank)
        if prepared.get("wait"):
            await rank.host("dp_cpu").all_reduce(np.ones(1, np.int32), site="wait")

    async def raises(self, rank: Rank) -> None:
        raise ValueError("two  words\nand a line")

    async def awaits_twice(self, rank: Rank) -> None:
        work = rank.stream("main").alloc(1, "int32", "buffer").read("read")
        await work
        await work

    async def suspends(self, rank: Rank) -> None:
        await asyncio.sleep(0)

    async def launches_nonsense(self, rank: Rank) -> None:
        buffer: Buffer = rank.stream("main").alloc(1, "int32", "buffer")
        rank.stream("main").launch("divide", divide, writes=[buffer], args=(0,))
        await buffer.read("read")

    async def decides_nonsense(self, rank: Rank) -> None:
        rank.decide("label", {"a set"}, "dp_cpu")  # type: ignore[arg-type]  # what a wrong protocol does

    async def holds_the_lock(self, rank: Rank) -> None:
        re.match(r"(a+)+$", "a" * 64 + "b")  # for ever, in C, and no other thread of Python runs


@register_protocol("real_waits")
class Waits(Program):
    """Rank 1 does what `how` says, the others what `others` says."""

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        rank.step = 3
        await getattr(self, prepared["how"] if rank.rank == 1 else prepared["others"])(rank)

    async def ends(self, rank: Rank) -> None:
        pass

    async def idles(self, rank: Rank) -> None:
        await rank.mailbox("box").get("idle", idle=True)

    async def gets(self, rank: Rank) -> None:
        await rank.mailbox("box").get("get")

    async def polls(self, rank: Rank) -> None:
        while await rank.mailbox("box").poll("poll") is None:
            pass

    async def sleeps(self, rank: Rank) -> None:
        await rank.sleep(2_500_000_000, "sleep")

    async def sends(self, rank: Rank) -> None:
        await rank.host("dp_cpu").send(np.ones(1, np.int32), 0, site="send")

    async def idles_before_a_stuck_stream(self, rank: Rank) -> None:
        main = rank.stream("main")
        rank.device("dp").all_reduce(main.alloc(1, "int32", "buffer"), main, site="stuck")
        await self.idles(rank)

    async def fails_on_a_stream_and_reads_another(self, rank: Rank) -> None:
        main, side = rank.stream("main"), rank.stream("side")
        buffer = main.alloc(1, "int32", "buffer")
        main.launch("divide", divide, writes=[buffer], args=(0,))
        side.wait_stream(main)
        await buffer.read("read", side)

    async def uses_what_it_freed(self, rank: Rank) -> None:
        buffer = rank.stream("main").alloc(2, "int32", "buffer")
        piece = buffer.view(0, 1)
        buffer.free()
        await piece.read("read")


@register_protocol("real_unprepared")
class Unprepared(Program):
    """Its arguments are never right."""

    def prepare(self, args: Mapping[str, Any]) -> Any:
        raise KeyError("no such argument")

    async def run(self, rank: Rank, prepared: Any) -> None:
        raise AssertionError("never runs")


@register_protocol("real_streams")
class Streams(Program):
    """Two streams with events, `record_stream`, views, and one communicator used on both."""

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        device, main, side = rank.device("dp"), rank.stream("main"), rank.stream("side")
        rank.step, size = 0, device.size
        table = main.alloc((size, 2), "int32", "table")
        main.launch("busy", dawdle, writes=[table], args=(0, 0.1))
        mine = table.view(device.index, device.index + 1)
        main.launch("mine", fill, writes=[mine], args=(rank.rank + 1,))
        filled = main.record()
        side.wait(filled)
        device.all_reduce(table, side, site="on side")
        table.record_stream(side)
        device.all_reduce(table, main, site="on main")  # after the one on `side`, by the order of the communicator
        main.wait_stream(side)
        main.launch("add", add, reads=[table.view(0, 1)], writes=[mine])
        done = side.record()
        await done.synchronize("done")
        assert await filled.query("passed")
        expected = np.repeat(np.arange(1, size + 1, dtype=np.int32)[:, None] * size, 2, axis=1)
        expected[device.index] += size
        assert ((await table.read("read")) == expected).all()
        assert ((await mine.view(0, 1).read("read.view", side)) == expected[device.index]).all()
        table.free()
        again = main.alloc((size, 2), "int32", "table")
        main.launch("again", fill, writes=[again], args=(7,))
        assert ((await again.read("read")) == 7).all()


@register_protocol("real_collectives")
class Collectives(Program):
    """Every collective in both domains, with and without sizes, a member that brings nothing among them."""

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        host, device, main = rank.host("dp_cpu"), rank.device("dp"), rank.stream("main")
        me, n, rank.step = host.index, host.size, 0
        for op, value in (("sum", n * (n + 1) // 2), ("max", n), ("min", 1)):
            assert (await host.all_reduce(np.full((2, 2), me + 1, np.int64), op=op)).tolist() == [[value] * 2] * 2
            whole = put(rank, np.full(3, me + 1, np.float32))
            device.all_reduce(whole, main, op=op)
            assert (await whole.read("reduced")).tolist() == [value] * 3
        sizes = list(range(n))  # rank 0 has nothing
        # Member i has 10 i, 10 i + 1, ...
        for given in (None, sizes):
            count = me if given else 3
            mine = np.arange(count, dtype=np.int32) + 10 * me
            all_of_them = [10 * i + k for i in range(n) for k in range(i if given else 3)]
            assert (await host.all_gather(mine, sizes=given)).tolist() == all_of_them
            output = put(rank, np.zeros(len(all_of_them), np.int32))
            device.all_gather(output, put(rank, mine), main, sizes=given)
            assert (await output.read("gathered")).tolist() == all_of_them

            whole = np.arange(sum(sizes) if given else 2 * n, dtype=np.int64)
            first, count = (sum(sizes[:me]), me) if given else (2 * me, 2)
            piece = [n * k for k in range(first, first + count)]
            assert (await host.reduce_scatter(whole, sizes=given)).tolist() == piece
            output = put(rank, np.zeros(count, np.int64))
            device.reduce_scatter(output, put(rank, whole), main, sizes=given)
            assert (await output.read("scattered")).tolist() == piece

            # Member i sends 100 i + j to j: as often as (i + j) % n says, or once.
            goes = [(me + j) % n for j in range(n)] if given else [1] * n
            sent = np.concatenate([np.full(goes[j], 100 * me + j, np.int32) for j in range(n)])
            came = [100 * i + me for i in range(n) for _ in range(goes[i])]
            vectors = {"output_sizes": goes, "source_sizes": goes} if given else {}
            assert (await host.all_to_all(sent, **vectors)).tolist() == came
            output = put(rank, np.zeros(len(came), np.int32))
            device.all_to_all(output, put(rank, sent), main, **vectors)
            assert (await output.read("exchanged")).tolist() == came
        assert (await host.barrier()).size == 0


@register_protocol("real_transfers")
class Transfers(Program):
    """Around a ring, on the host and on the device: lone, several under way at a time, and coalesced."""

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        host, device, main = rank.host("dp_cpu"), rank.device("dp"), rank.stream("main")
        me, n, rank.step = host.index, host.size, 0
        after, before = host.ranks[(me + 1) % n], host.ranks[(me - 1) % n]
        works = [host.send(np.full(2, 10 * rank.rank + k, np.float32), after) for k in range(2)]
        assert (await host.recv((1, 2), "float32", before)).tolist() == [[10 * before] * 2]
        assert (await host.recv(2, "float32", before)).tolist() == [10 * before + 1] * 2
        for work in works:
            assert (await work).size == 0

        mine, theirs = put(rank, np.full(4, rank.rank, np.int32)), main.alloc(4, "int32", "theirs")
        for parity in (0, 1):  # a send may last until its receive: the even ones send first
            for member in range(n):
                if member == me and member % 2 == parity:
                    device.send(mine, after, main)
                if (member + 1) % n == me and member % 2 == parity:
                    device.recv(theirs, before, main)
        assert (await theirs.read("ring")).tolist() == [before] * 4

        with device.coalesced(main):
            device.send(mine.view(0, 2), after, main)
            device.send(mine.view(2, 4), before, main)
            device.recv(theirs.view(0, 2), before, main)
            device.recv(theirs.view(2, 4), after, main)
        with device.coalesced(main):
            pass
        assert (await theirs.read("both ways")).tolist() == [before, before, after, after]


@register_protocol("real_mail")
class Mail(Program):
    """Rank 0 hands out work and takes it back; the others serve for ever. Two messages are left over."""

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        rank.step, others = 0, rank.host("dp_cpu").ranks[1:]
        assert await rank.mailbox("left over").poll("poll") is None  # not even from the run before
        begun = time.monotonic_ns()
        await rank.sleep(1_000, "sleep")
        assert time.monotonic_ns() >= begun
        if rank.rank == 0:
            for other in others:
                for number in range(3):
                    rank.send(other, "work", ("job", number, (True, 0.5)), "hand out")
                    assert await rank.mailbox(f"done {other}").get("done") == number * 2
                rank.send(other, "left over", "x", "leave")
            return
        while True:
            message = await rank.mailbox("work").get("work", idle=True)
            assert isinstance(message, tuple)
            assert message[0] == "job"
            assert message[2] == (True, 0.5)
            rank.send(0, f"done {rank.rank}", message[1] * 2, "hand back")  # type: ignore[operator]  # a number


def put(rank: Rank, array: HostArray) -> Buffer:
    """The array in device memory."""
    main = rank.stream("main")
    buffer = main.alloc(array.shape, array.dtype.name, "put")  # type: ignore[arg-type]  # one of the three
    main.launch("put", copy, writes=[buffer], args=tuple(array.tolist()))
    return buffer


def copy(buffer: Any, *values: float) -> None:
    """Kernel."""
    for index, value in enumerate(values):
        buffer[index] = value


def add(more: Any, buffer: Any) -> None:
    """Kernel."""
    buffer[:] = buffer + more


def dawdle(buffer: Any, value: int, seconds: float) -> None:
    """Kernel. On a GPU it is the host that dawdles."""
    time.sleep(seconds)
    buffer[:] = value


def fill(buffer: Any, value: int) -> None:
    """Kernel."""
    buffer[:] = value


def divide(buffer: Any, by: int) -> None:
    """Kernel."""
    buffer[:] = 1 // by
