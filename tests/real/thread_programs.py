"""Programs with host threads, for the tests of real backends."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import numpy as np

from dpsim.contract.interface import Buffer, CaptureError, Flag, Rank
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol

TURNS = 4

Life = Callable[[Rank], Coroutine[Any, Any, None]]


def put(x: Any, value: int) -> None:
    """A kernel that fills a buffer."""
    x[:] = value


def copy_to(source: Any, target: Any) -> None:
    """A kernel that copies."""
    target[:] = source


def add(x: Any, value: int) -> None:
    """A kernel that adds a number."""
    x += value


def peek(x: Any) -> None:
    """A kernel that waits for the device."""
    x[:] = int(x[0]) + 1


def double_and_add(x: Any, value: int) -> None:
    """A kernel whose result depends on the order of two launches."""
    x[:] = 2 * x + value


class Threaded(Program[Mapping[str, Any]]):
    """Runs what `args` say, with `alone` on rank 1 only. Then all ranks call a barrier."""

    threaded = True

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        rank.step = 3
        if rank.rank == 1 or not prepared.get("alone"):
            await getattr(self, prepared["how"])(rank, prepared)
        if prepared.get("meets", True):
            await rank.host("dp_cpu").all_reduce(np.ones(1, np.int32), site="meet")


@register_protocol("real_batons")
class Batons(Threaded):
    """Two threads put work on one stream and one communicator in turn."""

    async def eager(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        x = self.buffer(rank)
        await self.both(rank, x, prepared.get("forgets", False))
        await x.read("out")

    async def captured(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        main, graph, x = rank.stream("main"), rank.graph("g"), self.buffer(rank)
        async with graph.capture(main, mode=prepared.get("mode", "global")):
            await self.both(rank, x, prepared.get("forgets", False))
        for _ in range(2):
            graph.replay(main, "replay")
            await x.read("out")

    def buffer(self, rank: Rank) -> Buffer:
        x = rank.stream("main").alloc(4, "int64", "x")
        rank.stream("main").launch("put", put, writes=[x], args=(rank.rank + 1,))
        return x

    async def both(self, rank: Rank, x: Buffer, forgets: bool) -> None:
        """Starts both threads. `forgets`: the first thread does not clear its own flag, so it also runs in the turns of
        the other. It then ends before the other thread starts, so that no delay is needed.
        """
        flags = [rank.flag("even"), rank.flag("odd")]
        flags[0].set("begin")
        even = rank.start("even", self.turns(x, flags[0], flags[1], 1, forgets))
        if forgets:
            await even.join("join")
        odd = rank.start("odd", self.turns(x, flags[1], flags[0], 5, forgets))
        await odd.join("join")
        if not forgets:
            await even.join("join")

    def turns(self, x: Buffer, mine: Flag, other: Flag, value: int, forgets: bool) -> Life:
        async def take(rank: Rank) -> None:
            main, group = rank.stream("main"), rank.device("dp")
            for _ in range(TURNS):
                await mine.wait("turn")
                if not forgets:
                    mine.clear("take")
                scratch = main.alloc(4, "int64", "scratch")
                main.launch("copy", copy_to, reads=[x], writes=[scratch])
                main.launch("work", double_and_add, writes=[x], args=(value,))
                scratch.free()
                group.all_reduce(x, main, op="max", site="sum")
                other.set("hand")

        return take


@register_protocol("real_thread_ends")
class Ends(Threaded):
    """Programs about the end of a thread, and about the main thread while another thread runs."""

    async def raises(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        thread = rank.start("u1", self.fails(prepared["error"]))
        if prepared.get("joins"):
            rank.decide("learned", await thread.join("join"), "dp_cpu")

    def fails(self, error: str) -> Life:
        async def fail(rank: Rank) -> None:
            rank.step = 5
            rank.probe("before")
            raise {"value": ValueError("two  words"), "exit": SystemExit(3), "memory": MemoryError()}[error]

        return fail

    async def hangs(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        thread = rank.start("u1", self.waits)
        await thread.join("join")

    async def waits(self, rank: Rank) -> None:
        await rank.flag("never").wait("stuck")

    async def main_raises(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        """The main thread raises while other threads wait in each possible call."""
        rank.start("flag", self.waits)
        rank.start("mail", self.gets)
        rank.start("sum", self.sums)
        rank.start("read", self.reads)
        rank.start("nap", self.sleeps)
        rank.start("join", self.joins)
        raise ValueError("main")

    async def gets(self, rank: Rank) -> None:
        await rank.mailbox("box").get("get")

    async def sums(self, rank: Rank) -> None:
        await rank.host("dp_cpu").all_reduce(np.ones(1, np.int32), site="alone")

    async def reads(self, rank: Rank) -> None:
        x = rank.stream("main").alloc(4, "int32", "x")
        rank.device("dp").all_reduce(x, rank.stream("main"), site="alone.device")
        await x.read("read")

    async def sleeps(self, rank: Rank) -> None:
        await rank.sleep(3_600_000_000_000, "nap")

    async def joins(self, rank: Rank) -> None:
        await rank.start("inner", self.waits).join("join")

    async def leaves_one(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        """The main thread raises while a thread waits in a call of Python, which dpsim cannot stop."""
        rank.start("python", self.python)
        raise ValueError("main")

    async def python(self, rank: Rank) -> None:
        threading.Event().wait()

    async def dies(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        await rank.start("u1", self.sends).join("join")

    async def sends(self, rank: Rank) -> None:
        rank.send(rank.rank, "own", 1, "post")

    async def idles(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        """All threads wait in idle gets."""
        rank.start("u1", self.serves)
        await rank.mailbox("main").get("idle", idle=True)

    async def serves(self, rank: Rank) -> None:
        await rank.mailbox("box").get("idle", idle=True)

    async def idles_beside_one_that_waits(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        rank.start("u1", self.waits)
        await rank.mailbox("main").get("idle", idle=True)

    async def counts(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        """Decides on the threads of the process that belong to the job."""
        rank.decide("threads", tuple(sorted(self.left())), "dp_cpu")

    def left(self) -> list[str]:
        return [one.name for one in threading.enumerate() if one.name.startswith("u")]


@register_protocol("real_thread_captures")
class Captures(Threaded):
    """Makes a call in a thread while the main thread captures. Decides on the error codes of the thread and of the main
    thread.
    """

    async def asks(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        main, side = rank.stream("main"), rank.stream("side")
        x, y = main.alloc(4, "int32", "x"), side.alloc(4, "int32", "y")
        side.launch("put", put, writes=[y], args=(3,))
        event, begun, done = side.record(), rank.flag("begun"), rank.flag("done")

        async def ask(own: Rank) -> None:
            await begun.wait("begun")
            try:
                if prepared["what"] == "read":
                    await y.read("peek")
                elif prepared["what"] == "query":
                    await event.query("peek")
                elif prepared["what"] == "capture":
                    async with own.graph("other").capture(side):
                        pass
                elif prepared["what"] == "raise":
                    raise ValueError("in a capture")
                elif prepared["what"] == "synchronise":
                    main.launch("peek", peek, writes=[x])
                own.decide("u1", 0, "dp_cpu")
            except CaptureError as error:
                own.decide("u1", error.code, "dp_cpu")
            finally:
                done.set("done")

        thread, code = rank.start("u1", ask), 0
        try:
            async with rank.graph("g").capture(main, mode=prepared["mode"]):
                main.launch("put", put, writes=[x], args=(1,))
                begun.set("begin")
                await done.wait("done")
                main.launch("add", add, writes=[x], args=(1,))
        except CaptureError as error:
            code = error.code
        rank.decide("main", code, "dp_cpu")
        rank.decide("joined", await thread.join("join"), "dp_cpu")
        if not code:
            rank.graph("g").replay(main, "replay")
            await x.read("out")


@register_protocol("real_many_threads")
class ManyThreads(Threaded):
    """Threads that call without any order. The journal has the order in which the calls took place."""

    async def races(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        main, x = rank.stream("main"), rank.stream("main").alloc(1, "int64", "x")
        main.launch("put", put, writes=[x], args=(0,))
        await self.all_of(rank, [self.works(x, number) for number in range(4)])
        await x.read("out")

    async def races_in_a_capture(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        main, x = rank.stream("main"), rank.stream("main").alloc(1, "int64", "x")
        main.launch("put", put, writes=[x], args=(0,))
        async with rank.graph("g").capture(main):
            await self.all_of(rank, [self.puts(x, number) for number in range(4)])
        rank.graph("g").replay(main, "replay")
        await x.read("out")

    async def all_of(self, rank: Rank, lives: list[Life]) -> None:
        """Runs each of `lives` in a separate thread, with as many thread switches as Python can make."""
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            threads = [rank.start(f"u{number}", life) for number, life in enumerate(lives)]
            for thread in threads:
                await thread.join("join")
        finally:
            sys.setswitchinterval(before)

    def puts(self, x: Buffer, value: int) -> Life:
        async def work(rank: Rank) -> None:
            for _ in range(25):
                scratch = rank.stream("main").alloc(2, "int32", "scratch")
                rank.stream("main").launch("work", mix, writes=[x], args=(value,))
                scratch.free()

        return work

    def works(self, x: Buffer, value: int) -> Life:
        async def work(rank: Rank) -> None:
            main, side = rank.stream("main"), rank.stream(f"own.{value}")
            for number in range(25):
                main.launch("work", mix, writes=[x], args=(value,))
                scratch = side.alloc(2, "int32", "scratch")
                side.wait_stream(main)
                rank.send(rank.rank, f"box.{value}", number, "post")
                rank.decide("took", await rank.mailbox(f"box.{value}").get("get"), "dp_cpu")
                scratch.free()

        return work


@register_protocol("real_thread_products")
class Products(Threaded):
    """Two threads multiply matrices on separate streams, eagerly and in a graph that outlives them."""

    async def multiplies(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        main, graph = rank.stream("main"), rank.graph("g")
        x = [main.alloc((256, 256), "float32", "x") for _ in range(4)]
        for one in x:
            main.launch("put", put, writes=[one], args=(1,))
        # The first product creates a handle of cuBLAS, which a capture forbids. Later products reuse it.
        await rank.start("eager", self.multiplying("side", x[2], x[3])).join("join")
        async with graph.capture(main):
            await rank.start("captured", self.multiplying("main", x[0], x[1])).join("join")
        for _ in range(2):
            graph.replay(main, "replay")
            await x[1].read("out")

    def multiplying(self, stream: str, x: Buffer, y: Buffer) -> Life:
        async def multiply(rank: Rank) -> None:
            on = rank.stream(stream)
            if stream != "main":
                on.wait_stream(rank.stream("main"))
            on.launch("product", product, reads=[x], writes=[y])

        return multiply


def product(x: Any, y: Any) -> None:
    """A kernel that multiplies a matrix by itself."""
    y[:] = x @ x


def mix(x: Any, value: int) -> None:
    """A kernel whose result depends on the order of two launches."""
    x[:] = (5 * x + value) % 1_000_003
