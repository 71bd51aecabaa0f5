"""Variants of CUDA graphs: bugs that engines really had, each the healthy program with the bug in about ten lines.

A few CUDA graph bugs need code that the default program does not have, such as an all-reduce with registered buffers.
For such a bug, a healthy variant adds the code and is the `twin` of the faulty variant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsim.contract.interface import Buffer, Stream
from dpsim.vllm.capture.registration import RegisteredAllReduce
from dpsim.vllm.capture.session import CaptureSession, DummyRun, Target
from dpsim.vllm.capture.wrapper import ForwardContext, Outputs
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel.captured import Agree, CapturedForward, Metadata
from dpsim.vllm.graphs.dispatcher import Descriptor
from dpsim.vllm.model.kernels import LAYERS
from dpsim.vllm.model.rows import Piece
from dpsim.vllm.museum.captures import HEALTHY, mutant
from dpsim.vllm.pipeline.batches import InputBatch
from dpsim.vllm.pipeline.graphs import CapturedLayers

# ---- a scratch arena


@mutant("graph-arena", None, f"{HEALTHY} graph-arena-move")
class Arena(CapturedForward):
    """Kernels share one scratch buffer, which a rank replaces by a larger one for a larger batch.

    The rank runs the largest batch before any capture, so the buffer does not move after a capture.
    """

    arena: Buffer | None = None

    async def capture(self, agree: Agree) -> None:
        self.scratch(self.ids.shape[0])
        await super().capture(agree)

    def scratch(self, num_tokens: int) -> Buffer:
        """Scratch memory, int32 (num_tokens,). A buffer that is too small is freed and replaced by a larger one."""
        if self.arena is None or self.arena.shape[0] < num_tokens:
            if self.arena is not None:
                self.arena.free()
            self.arena = self.main.alloc(num_tokens, "int32", "arena")
        return self.arena.view(0, num_tokens)

    async def project(self, layer: int, context: ForwardContext, hidden: Buffer) -> Outputs:
        outputs = await super().project(layer, context, hidden)
        [query, scratch] = outputs.buffers[0], self.scratch(hidden.shape[0])
        context.stream.launch("scratch", squares, reads=[query], writes=[scratch], cost=0)
        return outputs


def squares(query: Any, scratch: Any) -> None:
    """Kernel: writes values to the scratch buffer, which no later kernel reads."""
    scratch[:] = query * query


@mutant("graph-arena-move", "STALE:FREED", twin="graph-arena")
class ArenaMoves(Arena):
    """The rank runs the largest batch after the captures, so it replaces the scratch buffer that the graphs use.

    The graphs still write to the freed buffer. Vllm issue 55336 and pull request 55341 report this.
    """

    async def capture(self, agree: Agree) -> None:
        await CapturedForward.capture(self, agree)
        self.scratch(self.ids.shape[0])


# ---- separate metadata for decode graphs


@mutant("decode-metadata", None, f"{HEALTHY} graph-shape-alias")
class DecodeMetadata(CapturedForward):
    """Graphs of decodes read separate metadata buffers, which a step fills before it replays such a graph."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.of_decodes = self.make_metadata(self.config.max_num_seqs)

    def refreshed(self, pieces: tuple[Piece, ...], mode: RuntimeMode, key: Descriptor) -> tuple[Buffer, ...]:
        return self.of_decodes if key.uniform and mode is RuntimeMode.FULL else self.metadata

    async def dummy_run(self, target: Target, mode: RuntimeMode, stream: Stream, agree: Agree) -> None:
        if target.key.uniform:  # the warm-up runs in mode NONE and reads these buffers
            self.put_metadata(self.capture_metadata(self.capture_inputs(target)), self.metadata, stream)
        await super().dummy_run(target, mode, stream, agree)

    def metadata_buffers(self, context: ForwardContext, num_reqs: int) -> list[Buffer]:
        own = self.of_decodes if context.key.uniform and context.mode is RuntimeMode.FULL else self.metadata
        starts, lengths, slots = own
        return [starts.view(0, num_reqs + 1), lengths.view(0, num_reqs), slots.view(0, num_reqs)]


@mutant("graph-shape-alias", "CRASH:DROPPEDTOKENS", twin="decode-metadata")
class ShapeAlias(DecodeMetadata):
    """A prompt as long as a decode runs in the decode graph, but the rank writes the metadata of a prompt.

    So the graph reads the decode metadata of its capture, or of the last decodes (vllm issues 49918 and 53051).
    """

    def refreshed(self, pieces: tuple[Piece, ...], mode: RuntimeMode, key: Descriptor) -> tuple[Buffer, ...]:
        prompts = any(first == 0 for _, _, first in pieces)
        return self.metadata if prompts else super().refreshed(pieces, mode, key)


# ---- an all-reduce that reads registered buffers of its peers


@mutant("car-registers", None, f"{HEALTHY} car-registration-a and car-registration-b")
class Registers(CapturedForward):
    """The experts' all-reduce reads its peers' buffers directly.

    The ranks exchange the addresses of these buffers after the captures.
    """

    reduce: type[RegisteredAllReduce] = RegisteredAllReduce

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.registered = self.reduce(self.rank, "dp_cpu", "ep")

    def combine(self, summed: Buffer, context: ForwardContext) -> None:
        self.registered.all_reduce(summed, context.stream, "experts.combine", context.capturing)

    async def end_session(self) -> None:
        await self.registered.register()


@mutant("car-registration-a", "STALE:UNWRITTEN", twin="car-registers")
class ReplaysInSession(Registers):
    """A rank replays a graph within the capture session, before the ranks exchanged the addresses of their buffers.

    Vllm issue 28334 and ROCm aiter pull request 2638 report this.
    """

    class Again(CaptureSession):
        async def capture(self, target: Target, dummy_run: DummyRun) -> None:
            await super().capture(target, dummy_run)
            await dummy_run(target, target.mode, self.stream)

    session = Again


@mutant("car-registration-b", "DISAGREEMENT:REGISTERED", twin="car-registers")
class CountsOnce(Registers):
    """One rank does not note a buffer whose address it has noted before.

    Its allocator had handed out the address again, so the buffer is a new one. This rank then counts fewer buffers than
    its peers, and the ranks read each other's lists at wrong positions (vllm pull request 39791).
    """

    class Cached(RegisteredAllReduce):
        def note(self, buffer: Buffer) -> int:
            reused = any(one.shape == buffer.shape for one in self.noted)
            last = self.device.index == self.device.size - 1
            return len(self.noted) - 1 if reused and last else super().note(buffer)

    reduce = Cached


@mutant("car-registers-twice", None, f"{HEALTHY} car-registration-c")
class RegistersTwice(Registers):
    """Ranks capture graphs in two sessions, and exchange the addresses of noted buffers at the end of each session."""

    now: tuple[Target, ...] = ()

    async def capture(self, agree: Agree) -> None:
        targets = sorted(super().targets(), key=lambda target: -target.key.num_tokens)
        for self.now in (tuple(targets[:1]), tuple(targets[1:])):
            self.captures.allowed = True
            await super().capture(agree)

    def targets(self) -> list[Target]:
        return list(self.now)


@mutant("car-registration-c", "STALE:UNWRITTEN", twin="car-registers-twice")
class RegistersOver(RegistersTwice):
    """The second session stores its addresses at the positions of the first session.

    So the graphs of the first session read the wrong addresses, and those of the second session find none.
    """

    class AtFirstPlaces(RegisteredAllReduce):
        async def register(self) -> None:
            noted, registered = self.noted, self.registered
            self.noted, self.registered = noted[registered:], 0
            await super().register()
            self.noted, self.registered = noted, len(noted)

    reduce = AtFirstPlaces


# ---- a separate stream that prepares the next step


@mutant("schedule-stream", None, f"{HEALTHY} sgl-schedule-war")
class ScheduleStream(CapturedForward):
    """A separate stream writes the inputs of a step, after it has waited for the forward of the previous step."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.schedule = self.rank.stream("schedule")
        self.schedule.wait_stream(self.main)

    def put(self, num_tokens: int, pieces: tuple[Piece, ...], stream: Stream) -> None:
        self.fence(stream)
        super().put(num_tokens, pieces, self.schedule)

    def put_metadata(self, metadata: Metadata, into: tuple[Buffer, ...], stream: Stream) -> None:
        super().put_metadata(metadata, into, self.schedule)
        stream.wait_stream(self.schedule)

    def fence(self, stream: Stream) -> None:
        """Orders the writes of the separate stream after the forward that reads the same buffers."""
        self.schedule.wait_stream(stream)


@mutant("sgl-schedule-war", "RACE:BUFFER", twin="schedule-stream")
class ScheduleAhead(ScheduleStream):
    """A separate stream writes the inputs of the next step while the current forward still reads the same buffers.

    Sglang pull requests 26380 and 26376 report this.
    """

    def fence(self, stream: Stream) -> None:
        if self.captures.allowed:
            super().fence(stream)


# ---- a pipeline stage that sends a host message to the next stage


@mutant("pp-tells", None, f"{HEALTHY} pp-captured-recv", protocol="pp_tokens")
class Tells(CapturedLayers):
    """Before its layers run, a stage receives a host message from the previous stage, and sends one to the next."""

    async def dummy_run(self, target: Target, mode: RuntimeMode, stream: Stream) -> None:
        await self.before()
        await super().dummy_run(target, mode, stream)

    async def run(self, input_batch: InputBatch, outgoing: Mapping[str, Buffer]) -> dict[str, Buffer]:
        await self.before()
        return await super().run(input_batch, outgoing)

    async def before(self) -> None:
        await self.hear()
        self.tell()

    async def hear(self) -> None:
        if not self.is_first:
            await self.rank.mailbox("stage").get("stage.hear")

    def tell(self) -> None:
        if self.layers[-1] + 1 < LAYERS:
            stages = self.rank.device("pp")
            self.rank.send(stages.ranks[stages.index + 1], "stage", stages.index, "stage.tell")


@mutant("pp-captured-recv", "GRAPH:HOST_EFFECT", protocol="pp_tokens", twin="pp-tells")
class TellsInForward(Tells):
    """A stage sends its message within its forward: the capture sends it once, and no replay sends it.

    Vllm issue 51887 reports this: all stages wait at the first decode.
    """

    async def before(self) -> None:
        await self.hear()

    async def forward(self, context: ForwardContext) -> Outputs:
        self.tell()
        return await super().forward(context)


@mutant("pp-captured-recv-host", "CRASH:CAPTUREERROR", protocol="pp_tokens", twin="pp-tells")
class HearsInForward(Tells):
    """A stage receives a message within its forward.

    A capture in dpsim raises if the host waits for a peer. CUDA does not raise if the host waits in gloo.
    """

    async def before(self) -> None:
        self.tell()

    async def forward(self, context: ForwardContext) -> Outputs:
        await self.hear()
        return await super().forward(context)
