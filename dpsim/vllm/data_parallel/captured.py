"""A forward that a rank captures into CUDA graphs before serving, and replays when the ranks agree on a graph.

Before serving, a capture session captures each graph that the rank's dispatcher may choose. In the V1 runner, each run
of the session first agrees with the other ranks, as a step does. The rank then asserts that the agreed mode and size
are those that it is about to capture (specification 5.6).

Graphs read persistent buffers, which `CapturedForward.prepare` fills before each forward.

Two ranks may replay different captures of one size. For example, one rank has LoRA adapters in its batch and the other
one has none, and graphs with adapters are separate captures (example A-31). The engine allows this. NCCL requires that
all ranks replay the same capture, so dpsim reports the step as GRAPH:UNPAIRED.

Sources: specification 5.6 to 5.8.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

from dpsim.contract.interface import Buffer, Stream
from dpsim.vllm.capture.session import CaptureSession, Target
from dpsim.vllm.capture.wrapper import ForwardContext, Outputs
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel import attention
from dpsim.vllm.data_parallel.layers import GraphedLayers
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.data_parallel.witness import Witness
from dpsim.vllm.graphs.capture import CaptureInputs, CaptureSize, inputs_017
from dpsim.vllm.graphs.dispatcher import Descriptor
from dpsim.vllm.model import rows
from dpsim.vllm.model.kernels import copy


class Agreed(NamedTuple):
    """How a forward runs: mode, graph, tokens of each data-parallel rank, and whether the ranks split it."""

    mode: RuntimeMode
    key: Descriptor
    counts: tuple[int, ...]
    microbatched: bool = False


Agree: TypeAlias = Callable[[Batch], Awaitable[Agreed]]
"""The callback by which a forward agrees with the other ranks on how a batch runs."""


class Metadata(NamedTuple):
    """The metadata of attention. `starts`: one entry a request, and the end; `lengths`, `slots`: one a request."""

    starts: tuple[int, ...]
    lengths: tuple[int, ...]
    slots: tuple[int, ...]


class CapturedForward(GraphedLayers):
    """The captured forward of one rank. A run calls its methods in the order of this file."""

    session: type[CaptureSession] = CaptureSession

    # ---- the session

    async def capture(self, agree: Agree) -> None:
        """Capture all graphs in one session. Afterwards, a capture on this rank is an error."""

        async def dummy_run(target: Target, mode: RuntimeMode, stream: Stream) -> None:
            await self.dummy_run(target, mode, stream, agree)

        await self.session(self.rank, ("ep",)).run(self.targets(), dummy_run)
        await self.end_session()
        self.captures.allowed = False

    def targets(self) -> list[Target]:
        """Every graph that a dispatch may choose for a batch."""
        return [Target(mode, key) for mode, keys in self.flow.dispatcher.keys.items() for key in keys]

    async def end_session(self) -> None:
        """Exchange what ranks need from each other before the first replay; nothing in the V1 runner."""

    async def dummy_run(self, target: Target, mode: RuntimeMode, stream: Stream, agree: Agree) -> None:
        """Run a graph of the session once: as a warm-up if `mode` is NONE, otherwise under capture.

        AssertionError: ranks agree on another mode or size than the session wants (specification 5.6).
        """
        key = target.key
        inputs = self.capture_inputs(target)
        agreed = await self.agree_on(target, mode, inputs, agree)
        wanted = (mode, key if mode is not RuntimeMode.NONE else Descriptor(key.num_tokens))
        assert (agreed.mode, agreed.key) == wanted, f"{agreed.mode.name} is agreed, not {mode.name} (5.6): {agreed}"
        self.put(key.num_tokens, (), stream)
        self.put_metadata(self.capture_metadata(inputs), self.refreshed((), target.mode, key), stream)
        piecewise = mode is RuntimeMode.PIECEWISE
        context = ForwardContext(mode, agreed.key, stream, None if piecewise else inputs.num_reqs, agreed.counts)
        outputs = await self.model(context, self.inputs_of(key.num_tokens))
        self.give_back(outputs)

    def capture_inputs(self, target: Target) -> CaptureInputs:
        """The inputs of a capture: a batch with the most requests that the graph may contain (specification 5.6)."""
        return inputs_017(CaptureSize(target.key.num_tokens, target.mode, target.key.uniform), self.config)

    async def agree_on(self, target: Target, mode: RuntimeMode, inputs: CaptureInputs, agree: Agree) -> Agreed:
        """Agree with the other ranks on a run of the session, as a step does."""
        return await agree(self.capture_batch(target, mode, inputs))

    def capture_batch(self, target: Target, mode: RuntimeMode, inputs: CaptureInputs) -> Batch:
        """The batch that a run of the session sends to the other ranks. It is a dummy of the size of the graph."""
        key, eager = target.key, mode is RuntimeMode.NONE
        scheduled = tuple([(-1, tokens, 0) for tokens in inputs.num_scheduled_tokens])
        longest = self.flow.q if key.uniform else 0  # with 0, no rank takes the batch for a uniform decode
        loras = int(key.has_lora)
        return Batch(scheduled, key.num_tokens, longest, loras, eager, is_dummy=True, forced_uniform=key.uniform)

    def capture_metadata(self, inputs: CaptureInputs) -> Metadata:
        """The metadata of a captured batch: no request has a row of the cache (invariant I-CG-11)."""
        return Metadata(inputs.query_start_loc, inputs.seq_lens, (-1,) * len(inputs.seq_lens))

    # ---- a step

    async def run(self, batch: Batch, agreed: Agreed) -> tuple[Buffer, slice]:
        """Run the forward of a step. Returns a buffer with the sums of all ranks' rows, and the slice of this rank's
        rows. The caller frees the buffer.
        """
        mode, key, counts = agreed.mode, self.graph_key(batch, agreed), agreed.counts
        num_tokens = key.num_tokens if mode is not RuntimeMode.NONE else counts[self.index]
        context = ForwardContext(mode, key, self.main, self.prepare(batch, num_tokens, mode, key), counts)
        outputs = await self.model(context, self.inputs_of(num_tokens))
        logits = self.logits(outputs)
        start = sum(counts[: self.index])
        return logits, slice(start, start + num_tokens)

    def graph_key(self, batch: Batch, agreed: Agreed) -> Descriptor:
        """The graph that a step replays: here the agreed one."""
        return agreed.key

    def prepare(self, batch: Batch, num_tokens: int, mode: RuntimeMode, key: Descriptor) -> int:
        """Fill the buffers on the main stream, before the forward. Returns the requests for attention."""
        metadata = self.metadata_of(batch, num_tokens, mode)
        self.put_cached(batch)
        self.put(num_tokens, batch.scheduled, self.main)
        self.put_metadata(metadata, self.refreshed(batch.scheduled, mode, key), self.main)
        return self.written_requests(max(batch.num_reqs, 1), mode, key)

    def metadata_of(self, batch: Batch, num_tokens: int, mode: RuntimeMode) -> Metadata:
        """The metadata of attention for a batch. A dummy is one request without a row of the cache. In mode FULL, inert
        requests fill the metadata up to `max_num_seqs`.
        """
        pieces = batch.scheduled or ((-1, num_tokens, 0),)
        starts, slots = [0], []
        for request, tokens, _ in pieces:
            starts.append(starts[-1] + tokens)
            slots.append(request)
        metadata = Metadata(tuple(starts), tuple([tokens + first for _, tokens, first in pieces]), tuple(slots))
        return padded(metadata, self.config.max_num_seqs) if mode is RuntimeMode.FULL else metadata

    def written_requests(self, num_reqs: int, mode: RuntimeMode, key: Descriptor) -> int:
        """The requests for attention: in a FULL graph those of the capture, otherwise the real ones.

        AssertionError: a FULL graph has no room for all (invariant I-CG-10).
        """
        if mode is not RuntimeMode.FULL:
            return num_reqs
        most = self.config.max_num_seqs if key.num_reqs is None else key.num_reqs
        assert num_reqs <= most, f"{num_reqs} requests for a graph of {most} (I-CG-10)"
        return most

    def put_cached(self, batch: Batch) -> None:
        """Fill the cached prefixes of requests that begin behind a shared prefix. In the engine, these requests share
        the blocks of the prefix. Here, each request has its own row of the cache. So the step that first schedules a
        request fills its row with the prefix.
        """
        begin = tuple([(request, first) for request, _, first in batch.scheduled if self.cached.get(request) == first])
        if begin:
            for cache in self.caches:
                self.main.launch("kv.cached", attention.put_cached, writes=[cache], args=(begin,), cost=0)

    def put(self, num_tokens: int, pieces: tuple[rows.Piece, ...], stream: Stream) -> None:
        """Write the values of a forward's tokens into the input buffer."""
        [ids] = self.inputs_of(num_tokens)
        stream.launch("input.put", rows.write, writes=[ids], args=(0, pieces), cost=0)

    def refreshed(self, pieces: tuple[rows.Piece, ...], mode: RuntimeMode, key: Descriptor) -> tuple[Buffer, ...]:
        """The metadata buffers that the next forward reads: the three buffers of starts, lengths and slots."""
        return self.metadata

    def put_metadata(self, metadata: Metadata, into: tuple[Buffer, ...], stream: Stream) -> None:
        """Write the metadata from the host into the buffers. Entries behind the metadata keep their values."""
        views = [buffer.view(0, len(part)) for buffer, part in zip(into, metadata, strict=True)]
        stream.launch("metadata.put", attention.put_metadata, writes=views, args=tuple(metadata), cost=0)

    def logits(self, outputs: Outputs) -> Buffer:
        """Copy the output, because the next replay overwrites it (invariant I-CG-7)."""
        [found] = outputs.buffers
        logits = self.main.alloc(found.shape, "int32", "logits")
        self.main.launch("logits", copy, reads=[found], writes=[logits])
        self.give_back(outputs)
        return logits

    async def end(self, witness: Witness) -> None:
        """After all steps, check that the caches contain exactly what the steps wrote."""
        for cache in self.caches:
            witness.cache(await cache.read("kv.read"))


def padded(metadata: Metadata, most: int) -> Metadata:
    """Append inert requests up to `most`, without tokens, where the last one ends (invariant I-CG-11).

    >>> padded(Metadata((0, 1, 3), (4, 9), (0, 1)), 3)
    Metadata(starts=(0, 1, 3, 3), lengths=(4, 9, 0), slots=(0, 1, -1))
    """
    free = most - len(metadata.slots)
    end = metadata.starts[-1]
    return Metadata(
        (*metadata.starts, *[end] * free), (*metadata.lengths, *[0] * free), (*metadata.slots, *[-1] * free)
    )
