"""Programs with captured graphs, for the tests of backends.

A model of four layers has in each layer a sum, an uneven exchange and two branches. Other programs make calls that a
capture forbids, or record an event again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpsim.contract.interface import Buffer, CaptureError, DeviceCommunicator, Graph, Rank, Stream
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol

WIDTH = 16
LAYERS = 4


# ---- kernels: each operation is rounded separately, so numbers are equal bit by bit on every backend


def begin(hidden: Any, step: int, rank: int) -> None:
    hidden[:] = 0.3 * step + rank


def attend(hidden: Any, out: Any, layer: int) -> None:
    out[:] = hidden * 1.1 + 0.1 * layer


def share(out: Any, shared: Any) -> None:
    shared[:] = out * out


def combine(tokens: Any, shared: Any, hidden: Any) -> None:
    hidden[:] = shared * 0.01
    hidden[: tokens.shape[0]] += tokens


def between(hidden: Any) -> None:
    hidden[:] = hidden * 0.7


def moved(members: int) -> list[list[int]]:
    """Returns the number of elements that each member sends to each, by sender."""
    return [[1 + (2 * sender + receiver) % 3 for receiver in range(members)] for sender in range(members)]


class Model:
    """The layers on one rank. `hidden` belongs to the program; each layer allocates and frees all other memory."""

    def __init__(self, rank: Rank) -> None:
        self.main, self.side = rank.stream("main"), rank.stream("side")
        self.sums, self.experts = rank.device("dp"), rank.device("ep")
        self.hidden = self.main.alloc(WIDTH, "float32", "hidden")
        sizes = moved(self.experts.size)
        self.go = sizes[self.experts.index]
        self.come = [row[self.experts.index] for row in sizes]

    def layer(self, number: int) -> None:
        main, side = self.main, self.side
        out = main.alloc(WIDTH, "float32", "out")
        main.launch("attend", attend, reads=[self.hidden], writes=[out], args=(number,))
        self.sums.all_reduce(out, main, site="sum")
        side.wait_stream(main)
        shared = side.alloc(WIDTH, "float32", "shared")
        side.launch("share", share, reads=[out], writes=[shared])
        tokens = main.alloc(sum(self.come), "float32", "tokens")
        given = out.view(0, sum(self.go))
        self.experts.all_to_all(tokens, given, main, output_sizes=self.come, source_sizes=self.go, site="dispatch")
        main.wait_stream(side)
        main.launch("combine", combine, reads=[tokens, shared], writes=[self.hidden])
        side.wait_stream(main)
        for buffer in (tokens, shared, out):
            buffer.free()

    def begin(self, step: int, rank: int) -> None:
        self.main.launch("begin", begin, writes=[self.hidden], args=(step, rank))

    def between(self) -> None:
        self.main.launch("between", between, writes=[self.hidden])


@register_protocol("real_layers")
class Layers(Program[Mapping[str, Any]]):
    """Runs the model. `how`: "eager", "full" (one graph for each step) or "piecewise" (two graphs, and a kernel
    between). `steps`: the number of steps, each with other inputs. `absent`: the rank that omits its last replay.
    """

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        model, how, steps = Model(rank), prepared["how"], prepared["steps"]
        graphs: list[Graph] = []
        if how == "full":
            graphs.append(await captured(rank, "full", model, range(LAYERS)))
        elif how == "piecewise":
            for name, layers in (("first", range(2)), ("second", range(2, LAYERS))):
                graphs.append(await captured(rank, name, model, layers))
        for rank.step in range(steps):
            model.begin(rank.step, rank.rank)
            last = rank.step == steps - 1 and prepared.get("absent") == rank.rank
            if how == "full":
                if not last:
                    graphs[0].replay(model.main, "replay")
            else:
                for part in range(2):
                    if part == 1:
                        model.between()
                    if how == "eager":
                        for number in range(2 * part, 2 * part + 2):
                            model.layer(number)
                    elif not last:
                        graphs[part].replay(model.main, "replay")
            await model.hidden.read("out")
        for graph in graphs:
            rank.decide("ran", ran(graph), "dp_cpu")


async def captured(rank: Rank, name: str, model: Model, layers: range) -> Graph:
    """Returns a graph of these layers. If they are all layers, the graph includes the kernel between."""
    graph = rank.graph(name, "pool")
    async with graph.capture(model.main):
        for number in layers:
            if number == 2 and layers.start < 2:
                model.between()
            model.layer(number)
    return graph


def ran(graph: Any) -> tuple[int, bool]:
    """Returns how often the graph has run, by the device's own count if it has one, and whether the device has nodes of
    it.
    """
    return (graph.runs(), graph.nodes > 0) if hasattr(graph, "runs") else (graph.replays, True)


@register_protocol("real_graph_law")
class Law(Program[Any]):
    """Makes each call that a capture forbids, in a separate capture, and decides on the error's code. Then it captures
    under the same name.
    """

    async def run(self, rank: Rank, prepared: Any) -> None:
        main = rank.stream("main")
        x = main.alloc(4, "int32", "x")
        main.launch("put", put, writes=[x], args=(1,))
        before = main.record()
        kept: list[Any] = []
        for name in ("reads", "asks", "sums", "looks", "waits", "nests", "leaves", "joins"):
            code = 0
            try:
                async with rank.graph("g").capture(main):
                    main.launch("add", add, writes=[x], args=(1,))
                    await getattr(self, name)(rank, x, before, kept)
            except CaptureError as error:
                code = error.code
            rank.decide(name, code, "dp_cpu")
        try:
            main.wait(kept[0])
        except CaptureError as error:
            rank.decide("waits.later", error.code, "dp_cpu")
        for _ in range(2):
            rank.graph("g").replay(main, "replay")
        await x.read("out")

    async def reads(self, rank: Rank, x: Buffer, before: Any, kept: list[Any]) -> None:
        await x.read("peek")

    async def asks(self, rank: Rank, x: Buffer, before: Any, kept: list[Any]) -> None:
        await rank.stream("main").record().query("query")

    async def sums(self, rank: Rank, x: Buffer, before: Any, kept: list[Any]) -> None:
        await rank.host("dp_cpu").all_reduce(np.ones(1, np.int32), site="host")

    async def looks(self, rank: Rank, x: Buffer, before: Any, kept: list[Any]) -> None:
        await rank.mailbox("box").poll("poll")

    async def waits(self, rank: Rank, x: Buffer, before: Any, kept: list[Any]) -> None:
        rank.stream("main").wait(before)

    async def nests(self, rank: Rank, x: Buffer, before: Any, kept: list[Any]) -> None:
        async with rank.graph("other").capture(rank.stream("side")):
            raise AssertionError("it is captured")

    async def leaves(self, rank: Rank, x: Buffer, before: Any, kept: list[Any]) -> None:
        side = rank.stream("side")
        side.wait_stream(rank.stream("main"))
        side.launch("add", add, writes=[x], args=(1,))

    async def joins(self, rank: Rank, x: Buffer, before: Any, kept: list[Any]) -> None:
        main, side = rank.stream("main"), rank.stream("side")
        kept.append(main.record())
        side.wait(kept[0])
        side.launch("add", add, writes=[x], args=(1,))
        main.wait_stream(side)


@register_protocol("real_recorded_again")
class RecordedAgain(Program[Any]):
    """Uses one event in all steps. Another stream waits for its last record. In the middle step a capture records it,
    and later steps record it outside again.
    """

    async def run(self, rank: Rank, prepared: Any) -> None:
        main, side, graph = rank.stream("main"), rank.stream("side"), rank.graph("g")
        x = main.alloc(4, "int32", "x")
        event = main.record()
        for rank.step in range(4):
            if rank.step == 2:
                async with graph.capture(main):
                    main.launch("put", put, writes=[x], args=(70,))
                    main.record(event)
                    side.wait(event)
                    side.launch("add", add, writes=[x], args=(1,))
                    main.wait_stream(side)
                graph.replay(main, "replay")
            else:
                main.launch("put", put, writes=[x], args=(10 * rank.step,))
            main.record(event)
            side.wait(event)
            side.launch("add", add, writes=[x], args=(2,))
            await x.read("out", side)
            main.wait_stream(side)


@register_protocol("real_freed_input")
class FreedInput(Program[Any]):
    """Replays a graph on memory that the program has freed since, and one on memory that its capture freed."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        main, graph = rank.stream("main"), rank.graph("g")
        x = main.alloc(4, "int32", "x")
        main.launch("put", put, writes=[x], args=(3,))
        async with graph.capture(main):
            y = main.alloc(4, "int32", "y")
            main.launch("copy", copy, reads=[x], writes=[y])
            y.free()
        graph.replay(main, "replay")
        await y.read("out")
        x.free()
        graph.replay(main, "replay")
        await y.read("out")


@register_protocol("real_peeks")
class Peeks(Program[Mapping[str, Any]]):
    """A kernel in a capture waits for the device, which only CUDA forbids. `goes_on`: the program then captures
    again.
    """

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        rank.step = 5
        main = rank.stream("main")
        x = main.alloc(4, "int32", "x")
        main.launch("put", put, writes=[x], args=(1,))
        try:
            async with rank.graph("g").capture(main):
                main.launch("peek", peek, writes=[x])
        except CaptureError as error:
            rank.decide("code", error.code, "dp_cpu")
            if not prepared["goes_on"]:
                raise
        await self.capture_anew(rank.graph("anew"), rank.device("dp"), main, x)

    async def capture_anew(self, graph: Graph, group: DeviceCommunicator, main: Stream, x: Buffer) -> None:
        async with graph.capture(main):
            group.all_reduce(x, main, site="sum")
        graph.replay(main, "replay")
        await x.read("out")


def put(x: Any, value: int) -> None:
    x[:] = value


def copy(x: Any, y: Any) -> None:
    y[:] = x


def add(x: Any, value: int) -> None:
    x += value


def peek(x: Any) -> None:
    x[:] = int(x[0]) + 1


@register_protocol("real_free_memory")
class FreeMemory(Program[Any]):
    """Decides on the free bytes of each rank's GPU, after all ranks have created their communicators."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        import torch

        main = rank.stream("main")
        x = main.alloc(4, "int32", "x")
        main.launch("put", put, writes=[x], args=(1,))
        rank.device("dp").all_reduce(x, main, site="sum")
        await x.read("out")
        rank.decide("free", torch.cuda.mem_get_info(rank.rank)[0], "dp_cpu")
