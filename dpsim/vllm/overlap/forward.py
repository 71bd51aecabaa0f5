"""How a rank cuts a batch into microbatches after the agreement, and runs them (specification 3.5, 3.6 and 4.8).

Padded slices cut inputs, token counts and forward contexts. In mode FULL they also cut the metadata of attention, in
other modes the unpadded slices do. Each microbatch has its own metadata buffers, because a graph reads the same buffers
in every replay.

If a step has encoder inputs, the model gets embeddings instead of token ids, and microbatches get slices of the
embeddings (`InputsCut`).

Before serving, a rank captures graphs. Sizes of decodes that reach the threshold are captured as microbatches, all
others as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsim.contract.interface import Buffer, Rank, Stream
from dpsim.vllm.capture.session import Target
from dpsim.vllm.capture.wrapper import ForwardContext, Outputs
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel.captured import Agree, Agreed, Metadata
from dpsim.vllm.data_parallel.flow import BatchFlow
from dpsim.vllm.data_parallel.microbatch import Slice, Slicing
from dpsim.vllm.data_parallel.microbatch_inputs import AttentionMetadata, InputsCut, MetadataCut, ModelInputs
from dpsim.vllm.data_parallel.timeline import Batch, Batches
from dpsim.vllm.graphs.capture import CaptureInputs
from dpsim.vllm.graphs.dispatcher import Descriptor
from dpsim.vllm.model import rows
from dpsim.vllm.model.kernels import fill
from dpsim.vllm.overlap.barrier import LiteralBarrier, ReadyBarrier
from dpsim.vllm.overlap.baton import UBatchContext
from dpsim.vllm.overlap.graph_keys import GraphKeys, Keys001
from dpsim.vllm.overlap.layers import OverlapLayers
from dpsim.vllm.overlap.state import OverlapContext
from dpsim.vllm.overlap.wrapper import UbatchMetadata, UBatchWrapper


class OverlapForward(OverlapLayers):
    """The forward of one rank, as in source page 001. A run calls the methods in the order of this file."""

    wrapper_of: type[UBatchWrapper] = UBatchWrapper
    slicing: type[Slicing] = Slicing
    metadata_cut: type[MetadataCut] = MetadataCut
    inputs_cut: type[InputsCut] = InputsCut
    graph_keys: type[GraphKeys] = Keys001
    barrier: type[ReadyBarrier] = LiteralBarrier
    ubatch_context: type[UBatchContext] = UBatchContext

    def __init__(self, rank: Rank, flow: BatchFlow, timeline: Batches) -> None:
        super().__init__(rank, flow, timeline)
        most, number = self.config.max_num_seqs, self.config.num_ubatches
        self.ubatch_metadata = [self.make_metadata(most) for _ in range(number)] if number > 1 else []
        self.ubatches = self.wrapper_of(
            rank,
            self.state,
            self.model,
            self.captures,
            self.library,
            self.sms,
            self.graph_keys(),
            self.barrier(rank),
            self.ubatch_context,
        )
        self.of_tokens: dict[tuple[int, int], tuple[Buffer, ...]] = {}
        self.embeds: Buffer | None = None  # of the step in progress, if it has encoder inputs
        self.room: Buffer | None = None  # the buffer of embeddings, once a step had some

    # ---- before serving

    def targets(self) -> list[Target]:
        return super().targets() if self.config.capture_graphs else []

    def capture_batch(self, target: Target, mode: RuntimeMode, inputs: CaptureInputs) -> Batch:
        """The batch of a capture. It may be split if it is for a FULL graph of decodes."""
        split = target.mode is RuntimeMode.FULL and target.key.uniform
        return super().capture_batch(target, mode, inputs)._replace(allow_microbatching=split)

    async def dummy_run(self, target: Target, mode: RuntimeMode, stream: Stream, agree: Agree) -> None:
        key = target.key
        inputs = self.capture_inputs(target)
        agreed = await self.agree_on(target, mode, inputs, agree)
        wanted = (mode, key if mode is not RuntimeMode.NONE else Descriptor(key.num_tokens))
        assert (agreed.mode, agreed.key) == wanted, f"{agreed.mode.name} is agreed, not {mode.name} (5.6): {agreed}"
        metadata = self.capture_metadata(inputs)
        self.put(key.num_tokens, (), stream)
        self.put_metadata(metadata, self.metadata, stream)
        piecewise = mode is RuntimeMode.PIECEWISE
        context = ForwardContext(mode, agreed.key, stream, None if piecewise else inputs.num_reqs, agreed.counts)
        parts = self.parts(context, metadata, inputs.num_scheduled_tokens) if agreed.microbatched else None
        outputs = await self.run_in_context(context, self.inputs_of(key.num_tokens), parts)
        self.give_back(outputs)

    # ---- a step

    async def run(self, batch: Batch, agreed: Agreed) -> tuple[Buffer, slice]:
        """Run the model. Returns a buffer and the slice of this rank's rows. The caller frees the buffer."""
        mode = agreed.mode if self.config.capture_graphs else RuntimeMode.NONE
        key, counts = self.graph_key(batch, agreed), agreed.counts
        num_tokens = key.num_tokens if mode is not RuntimeMode.NONE else counts[self.index]
        context = ForwardContext(mode, key, self.main, self.prepare(batch, num_tokens, mode, key), counts)
        self.embeds = self.put_embeds(batch, num_tokens) if batch.encoder_reqs and mode is RuntimeMode.NONE else None
        parts = None
        if agreed.microbatched:
            scheduled = [tokens for _, tokens, _ in batch.scheduled] or [num_tokens]
            parts = self.parts(context, self.metadata_of(batch, num_tokens, mode), scheduled)
        outputs = await self.run_in_context(context, self.inputs_of_step(num_tokens), parts)
        return self.logits(outputs), slice(0, num_tokens)

    def put_embeds(self, batch: Batch, num_tokens: int) -> Buffer:
        """Write the embeddings of a step, and overwrite its ids with zeros."""
        if self.room is None:
            self.room = self.main.alloc(self.ids.shape, "int32", "input.embeds")
        written, void = self.room.view(0, num_tokens), self.inputs_of(num_tokens)
        self.main.launch("input.embed", rows.write, writes=[written], args=(0, batch.scheduled), cost=0)
        self.main.launch("input.void", fill, writes=void, args=(0,), cost=0)
        return self.room

    def inputs_of_step(self, num_tokens: int) -> tuple[Buffer, ...]:
        """The inputs of a whole forward: token ids, or the embeddings that replace them."""
        return self.inputs_of(num_tokens) if self.embeds is None else (self.embeds.view(0, num_tokens),)

    async def run_in_context(
        self, context: ForwardContext, inputs: tuple[Buffer, ...], parts: Sequence[UbatchMetadata] | None
    ) -> Outputs:
        """Run the model while a forward context is installed. `parts`: its microbatches, or None."""
        forward = OverlapContext(context, self.metadata)
        with self.state.during(forward):
            return await self.ubatches(forward, inputs, parts)

    def parts(self, context: ForwardContext, metadata: Metadata, scheduled: Sequence[int]) -> list[UbatchMetadata]:
        """The microbatches of a forward, each with its attention metadata."""
        assert context.counts, "microbatches need the tokens of all ranks (their DP metadata)"
        full = context.mode is RuntimeMode.FULL
        num_tokens, num_reqs = context.counts[self.index], context.num_reqs
        assert num_reqs is not None, "a forward without attention metadata cannot be split"
        slices = self.slicing().slices(scheduled, num_tokens, num_reqs, self.config.num_ubatches)
        whole = attention_metadata(metadata, num_reqs if full else len(scheduled))
        cuts = slices.for_attention(context.mode)
        return [
            self.part(number, context, own, padded, whole, metadata)
            for number, (own, padded) in enumerate(zip(cuts, slices.padded, strict=True))
        ]

    def part(
        self,
        number: int,
        context: ForwardContext,
        own: Slice,
        padded: Slice,
        whole: AttentionMetadata,
        metadata: Metadata,
    ) -> UbatchMetadata:
        """One microbatch. `own`: the slice that cuts its attention metadata. `padded`: the slice that cuts everything
        else.
        """
        cut = self.metadata_cut().cut(whole, own)
        starts, lengths = tuple(cut.query_start_loc.tolist()), tuple(cut.seq_lens.tolist())
        into = self.ubatch_metadata[number]
        self.put_metadata(self.cut_slots(starts, lengths, own, metadata), into, context.stream)
        context_of_part = context._replace(num_reqs=cut.num_reqs, counts=self.counts(padded, context))
        return UbatchMetadata(
            OverlapContext(context_of_part, into, padded.tokens.start), self.part_inputs(padded.tokens)
        )

    def cut_slots(self, starts: tuple[int, ...], lengths: tuple[int, ...], own: Slice, metadata: Metadata) -> Metadata:
        return Metadata(starts, lengths, metadata.slots[own.requests.start : own.requests.stop])

    def counts(self, padded: Slice, context: ForwardContext) -> tuple[int, ...]:
        """The tokens of all ranks in this microbatch (vLLM's DP metadata)."""
        return padded.counts(len(context.counts))

    def part_inputs(self, tokens: range) -> tuple[Buffer, ...]:
        """The inputs of a microbatch. Microbatches with the same tokens get the same views."""
        key = tokens.start, tokens.stop
        if self.embeds is not None:
            return self.cut_inputs(tokens)
        if key not in self.of_tokens:
            self.of_tokens[key] = self.cut_inputs(tokens)
        return self.of_tokens[key]

    def cut_inputs(self, tokens: range) -> tuple[Buffer, ...]:
        cut = self.inputs_cut().cut(ModelInputs(self.ids, None, self.embeds), tokens)
        return (cut.input_ids if cut.inputs_embeds is None else cut.inputs_embeds,)


def attention_metadata(metadata: Metadata, num_reqs: int) -> AttentionMetadata:
    """The metadata of `num_reqs` requests, some of them padding. Slices cut it for the microbatches."""
    starts = np.array(metadata.starts[: num_reqs + 1], np.int32)
    lengths = np.array(metadata.lengths[:num_reqs], np.int32)
    longest = int(np.diff(starts).max())
    return AttentionMetadata(starts, lengths, num_reqs, int(starts[-1]), longest, int(lengths.max()))
