"""Small protocols for the tests of the real backends. The workers import this module by its name."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import resource
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dpsim.contract.interface import Buffer, Rank
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol

FILLS = "x" * (1 << 20)
"""A text longer than the room that a journal has reserved on the disk."""


@register_protocol("real_rounds")
class Rounds(Program[Any]):
    """Runs `rounds` steps, each with an all_reduce on the host and one on the device. Ends with one on the host."""

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
class Groups(Program[Any]):
    """Sums in groups smaller than the world, and broadcasts from the last member, whose root is its global rank."""

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        host, device, main = rank.host("dp_cpu"), rank.device("dp"), rank.stream("main")
        rank.step = 0
        mine, root = np.full((2, 3), 10.0**rank.rank, np.float32), host.ranks[-1]
        total = host.all_reduce(mine, site="sum")  # awaited after the device has its work
        buffer = main.alloc((2, 3), "int32", "buffer")
        main.launch("fill", fill, writes=[buffer], args=(rank.rank,))
        device.broadcast(buffer, device.ranks[-1], main, site="device.last")
        rank.decide("sum", tuple((await total).reshape(-1).tolist()), "dp_cpu")
        rank.decide("last", float((await host.broadcast(mine, root, site="last")).max()), "dp_cpu")
        rank.decide("device.last", tuple((await buffer.read("read")).reshape(-1).tolist()), "dp")


@register_protocol("real_misbehaves")
class Misbehaves(Program[Any]):
    """Rank 1 breaks a rule, which `how` names. With `wait` the ranks then call an all_reduce."""

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

    async def holds_the_lock(self, rank: Rank) -> None:
        re.match(r"(a+)+$", "a" * 64 + "b")  # endless, in C; no other Python thread runs


@register_protocol("real_shares")
class Shares(Program[Any]):
    """Each rank uses an object that ranks of one process share, as `how` says."""

    def prepare(self, args: Any) -> dict[str, Any]:
        return {**args, "seen": [], "table": np.zeros(100_000)}

    async def run(self, rank: Rank, prepared: dict[str, Any]) -> None:
        match prepared["how"]:
            case "fills a list":
                prepared["seen"].append(rank.rank)
            case "writes an array" if rank.rank == 1:
                prepared["table"][7] = 1
            case "assigns" if rank.rank == 0:
                self.count = 1
            case "raises":
                prepared["seen"].append(rank.rank)
                raise ValueError("too late")
        await rank.host("dp_cpu").barrier()


@register_protocol("real_waits")
class Waits(Program[Any]):
    """Rank 1 does what `how` says, and the others what `others` says."""

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
        await rank.sleep(1_500_000_000, "sleep")

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


@register_protocol("real_mismatch")
class Mismatch(Program[Any]):
    """Five steps with a sum and a broadcast, each on its own communicator. In the third step rank 0 does `what`
    differently. Each call has 64 bytes. Rank 0 is not the root of the broadcast, because a root that waits for no
    member would finish in any order.
    """

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        for rank.step in range(5):
            what = prepared["what"] if (rank.rank, rank.step) == (0, 2) else ""
            calls = [self.sums, self.tells]
            for call in reversed(calls) if what in ("order", "order of streams") else calls:
                buffer = await call(rank, what)
                if "streams" not in prepared["what"]:  # if the host runs ahead, it makes both calls
                    await buffer.read("read")
                buffer.free()

    async def sums(self, rank: Rank, what: str) -> Buffer:
        main, group = rank.stream("main"), rank.device("dp")
        buffer = main.alloc(8 if what == "count" else 16, "int64" if what == "dtype" else "int32", "buffer")
        main.launch("fill", fill, writes=[buffer], args=(rank.rank,))
        if what == "op":
            group.broadcast(buffer, rank.rank, main, site="sum")
        elif what != "rank":
            group.all_reduce(buffer, main, op="max" if what == "reduce" else "sum", site="sum")
        return buffer

    async def tells(self, rank: Rank, what: str) -> Buffer:
        main, group = rank.stream("main"), rank.device("ep")
        buffer = main.alloc(16, "int32", "buffer")
        main.launch("fill", fill, writes=[buffer], args=(rank.rank,))
        group.broadcast(buffer, group.ranks[what != "root"], main, site="tell")
        return buffer


@register_protocol("real_answered")
class Answered(Program[Any]):
    """Rank 0 posts the receive of an answer on a side stream before it sends a request on the main stream. Rank 1
    answers with what it received. `back`: the communicator of the answer.
    """

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        rank.step = 0
        if rank.rank > 1:
            return
        main, side, there, back = (
            rank.stream("main"),
            rank.stream("side"),
            rank.device("dp"),
            rank.device(prepared["back"]),
        )
        mine, answer = main.alloc(4, "int32", "mine"), side.alloc(4, "int32", "answer")
        main.launch("fill", fill, writes=[mine], args=(5,))
        if rank.rank == 0:
            back.recv(answer, 1, side, site="answer")
            there.send(mine, 1, main, site="ask")
            assert (await answer.read("read")).tolist() == [5] * 4
        else:
            there.recv(mine, 0, main, site="ask")
            back.send(mine, 0, main, site="answer")
            await mine.read("read")


@register_protocol("real_prints")
class Prints(Program[Any]):
    """Each rank prints an environment variable."""

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        os.write(2, f"{os.environ[prepared['variable']]}\n".encode())


@register_protocol("real_forks")
class Forks(Program[Any]):
    """Rank 1 forks a process and dies. The forked process lives until it gets the lock of the file `lock`."""

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        if rank.rank == 0:
            rank.watch(1, "deaths", "watch")
            rank.send(1, "in", "go", "go")
            rank.decide("told", await rank.mailbox("deaths").get("told"), "dp_cpu")
        if rank.rank == 1:
            await rank.mailbox("in").get("wait")
            with open(prepared["lock"]) as file:
                if not os.fork():
                    fcntl.flock(file, fcntl.LOCK_EX)
                    os._exit(0)
            await rank.mailbox("in").get("die_here")


@register_protocol("real_unprepared")
class Unprepared(Program[Any]):
    """A program whose `prepare` always raises."""

    def prepare(self, args: Any) -> Any:
        raise KeyError("no such argument")

    async def run(self, rank: Rank, prepared: Any) -> None:
        raise AssertionError("never runs")


def fill(buffer: Any, value: int) -> None:
    """A kernel that fills a buffer."""
    buffer[:] = value


def exhaust(buffer: Any) -> None:
    """A kernel that raises MemoryError."""
    raise MemoryError


def divide(buffer: Any, by: int) -> None:
    """A kernel that divides by its argument, which may be 0."""
    buffer[:] = 1 // by


@register_protocol("real_late")
class Late(Program[Any]):
    """All ranks raise. Rank 0 first computes for `seconds`."""

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        rank.step = 0
        await rank.host("dp_cpu").all_reduce(np.ones(1, np.int32), site="meet")
        ends = time.process_time() + prepared["seconds"]
        while rank.rank == 0 and time.process_time() < ends:
            pass
        raise ValueError("as planned")


@register_protocol("real_lacks")
class Lacks(Program[Any]):
    """Rank 1 runs out of a resource, or ends itself. The others wait for it."""

    def prepare(self, args: Any) -> Any:
        if args["what"] == "stops in set-up":
            os.kill(os.getpid(), signal.SIGSTOP)
        if args["what"] == "memory in set-up":
            raise MemoryError
        return args

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        rank.step = 2
        rank.decide("before", rank.rank if prepared["what"] == "agreement, then memory" else 0, "dp_cpu")
        await rank.host("dp_cpu").all_reduce(np.ones(1, np.int32), site="meet")
        if rank.rank == 1:
            await self.lack(rank, prepared["what"])
        await rank.mailbox("box").get("wait")

    async def lack(self, rank: Rank, what: str) -> None:
        if what == "disk":
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            rank.decide("after", FILLS, "dp_cpu")
        elif what == "disk later":
            opened = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.is_file()]
            journal = next(Path(one) for one in opened if one.endswith(f"rank-{rank.rank}.journal"))
            resource.setrlimit(resource.RLIMIT_FSIZE, (journal.stat().st_size, resource.RLIM_INFINITY))
            while True:
                rank.decide("more", "more " * 10_000, "dp_cpu")
        elif what == "descriptors":
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
            open(os.devnull)  # noqa: SIM115  # it fails
        elif what == "memory of the device":
            rank.stream("main").alloc(1 << 46, "int64", "buffer")
        elif what == "memory in a kernel":
            buffer: Buffer = rank.stream("main").alloc(1, "int32", "buffer")
            rank.stream("main").launch("exhaust", exhaust, writes=[buffer])
            await buffer.read("read")
        elif what in ("memory", "agreement, then memory"):
            np.empty(1 << 50, np.uint8)
        elif what == "caught disk":
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            with contextlib.suppress(BaseException):
                rank.decide("after", FILLS, "dp_cpu")
        elif what == "exit":
            os._exit(7)
        else:
            with contextlib.suppress(OSError):  # a shell's background jobs inherit that they ignore SIGQUIT
                signal.signal(getattr(signal, what), signal.SIG_DFL)
            os.kill(os.getpid(), getattr(signal, what))
        rank.decide("after", 1, "dp_cpu")
