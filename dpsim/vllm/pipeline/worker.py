"""A worker of a pipeline stage: what the engine's remote calls make it do.

Three calls exist, and a worker does one after the other, in the order in which the engine made them (7.3):

    execute    one step of vLLM's V2 runner up to the hidden states (10.1).
               It waits for the sends of the step before, receives, and takes over the tokens of `stages` steps ago.
               Then it frees and fills slots, prepares the inputs, runs the layers, and sends. A batch without tokens
               only takes over, frees and fills.
    sample     of the batch executed last: the last stage samples and broadcasts, the others post the receive
    dummy      other replicas compute, and their experts need this rank

Between `execute` and `sample` a worker keeps one record, `executed` (10.6). `execute` overwrites it, also if it is set,
and `sample` clears it. If there is no record, `sample` returns None, and the engine reports an error.
A dummy step leaves a separate record, which the last stage alone clears. `sample` returns the result of a batch with
tokens, `execute` that of a batch without tokens.

Replicas share the experts of the model. One without tokens runs a dummy step, so that the others' experts find it.
Sources: specification chapters 6.8, 7.2, 7.3, 10.1 and 10.6.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.interface import Buffer, Rank
from dpsim.contract.ops import DType
from dpsim.vllm.model import kernels
from dpsim.vllm.pipeline.batches import Admission, Batch, InputBatch, Row, StepResult
from dpsim.vllm.pipeline.history import History
from dpsim.vllm.pipeline.layers import EagerLayers, Layers
from dpsim.vllm.pipeline.request_table import RequestTable, gather, state
from dpsim.vllm.pipeline.sampled_tokens import DROPPED, Arrived, SampledTokens
from dpsim.vllm.pipeline.slots import RequestSlots
from dpsim.vllm.pipeline.staging import Staging
from dpsim.vllm.pipeline.transfer import Received, Transfer

DUMMY = Batch(-1, (), (), (Row(request=-1, computed=0, scheduled=1, prefill=1, limit=3, position=0),))
"""A batch of one token, which belongs to no request."""


class PipelineWorker:
    """One rank's part. Methods in the order in which a run calls them."""

    token_dtype: DType = "int64"
    """The dtype of what the sampler leaves."""

    def __init__(
        self,
        rank: Rank,
        history: History,
        tokens: type[SampledTokens],
        transfer: type[Transfer],
        tensor_parallel_size: int = 1,
        layers: type[Layers] = EagerLayers,
    ) -> None:
        self.rank, self.history, config = rank, history, history.config
        self.stages, self.replicas = history.stages, rank.device("dp").size
        self.mirrors = "pp" if self.stages > 1 else "ep"  # who has to have the same state
        self.index = rank.device("pp").index if self.stages > 1 else 0
        self.is_first, self.is_last = self.index == 0, self.index == self.stages - 1
        self.main, self.output = rank.stream("main"), rank.stream("output")
        slots, width = config.max_num_seqs, history.most_tokens
        self.drafts = config.num_speculative_tokens
        self.layers = tuple(kernels.stage_layers(self.index, self.stages))
        self.table = RequestTable(self.main, slots, width, self.drafts)
        rows = slots + layers.spare_slots
        self.cache = state(self.main, (len(self.layers), rows, width), "int64", "kv_cache")
        # What a forward takes and leaves: at the same place in each step, as a graph needs it.
        largest = max(history.largest, layers.largest(config))
        self.hidden = {name: state(self.main, (largest,), "int64", f"{name}.in") for name in ("hidden", "residual")}
        self.outgoing = {name: state(self.main, (largest,), "int64", f"{name}.out") for name in ("hidden", "residual")}
        self.experts = rank.device("ep")
        self.staging = Staging(rank, self.rotations(), slots)
        self.transfer = transfer(rank, tensor_parallel_size) if self.stages > 1 else None
        self.tokens = tokens(rank, slots, self.drafts) if self.stages > 1 else None
        self.slots = RequestSlots(slots)
        self.nobody = state(self.main, (1,), "int64", "mapping.dummy") if self.replicas > 1 else None
        self.executed: InputBatch | None = None  # the record of the batch that is sampled next
        self.left: dict[str, Buffer] = {}  # what the last forward left, by name
        own = rank, config, self.layers, self.cache, self.hidden, self.is_first, tensor_parallel_size
        self.model = layers(*own)

    def rotations(self) -> int:
        """The number of staging buffers: one for each batch that may be under way (I-PS-13)."""
        return self.stages + int(self.history.config.async_scheduling)

    # ---- remote calls

    async def dummy(self) -> None:
        """Run the experts alone, as other replicas compute. No request, queue or neighbour notices it (I-PP-10)."""
        self.rank.probe("pp.dummy_step")
        self.run_experts(0)
        self.executed = None if self.is_last else self.dummy_record()

    def dummy_record(self) -> InputBatch:
        """The record of a dummy step: one token of no request, in the first slot."""
        assert self.nobody is not None, "only replicas run dummy steps"
        return InputBatch(DUMMY, (0,), self.nobody, DUMMY.spans(), self.nobody)

    async def execute(self, batch: Batch) -> StepResult | None:
        """Run one step. Returns its result, or None if the batch has tokens: then `sample_tokens` has the result."""
        if self.transfer is not None:
            await self.transfer.begin()
        received = None
        if self.transfer is not None and self.transfers(batch) and not self.is_first:
            received = await self.transfer.receive()
        self.before_inputs(batch)
        if not batch.rows:
            return StepResult(self.rank.step, batch, None, None, None, (), self.main.record())
        await self.agree(batch)
        input_batch = self.prepare(batch)
        await self.forward(input_batch, received)
        self.executed = input_batch
        return None

    def sample_tokens(self, masks: tuple[tuple[int, ...], ...] = ()) -> StepResult | None:
        """Sample the batch that was executed last. Returns its result, or None if no batch was executed.

        `masks`: for each row, by place, the tokens that a grammar permits; empty if no row has a grammar.
        """
        executed, self.executed = self.executed, None
        if executed is None:
            return None
        input_batch = executed._replace(masks=masks)
        batch, inputs, delivered = input_batch.batch, input_batch.inputs, self.slots.delivered(input_batch.slots)
        tokens, counts = self.sample(input_batch)
        result = StepResult(self.rank.step, batch, inputs, tokens, counts, delivered, self.main.record())
        if self.tokens is None or not self.tokens.holds(input_batch.mapping):
            input_batch.mapping.free()
        return result

    async def agree(self, batch: Batch) -> None:
        """Agree with peers of other replicas on what runs. Here each rank knows it without a message (10.1, row 6)."""

    def transfers(self, batch: Batch) -> bool:
        """Whether stages send and receive hidden states in this step (I-PS-9)."""
        return batch.num_tokens > 0

    def before_inputs(self, batch: Batch) -> None:
        """Take over tokens, then update slots, so that a new owner's first tokens overwrite them (6.8)."""
        self.consume()
        self.update_slots(batch)

    def consume(self) -> None:
        """Take over the tokens that the last stage sampled one pipeline length of steps ago."""
        if self.tokens is None or self.is_last:
            return
        arrived = self.tokens.consume()
        if arrived is None:
            return
        self.take_over(arrived)
        arrived.free()

    def take_over(self, arrived: Arrived) -> None:
        mapping = self.mapping_of(arrived)
        # `advance` counted the rows as computed when they ran, so only rejected drafts are left to subtract.
        sampled, rejected = arrived.counts.view(0, 1), arrived.counts.view(1, 2)
        self.table.update(arrived.tokens, sampled, rejected, mapping, (0,) * len(arrived.mapping))
        if arrived.drafts is not None:
            self.store_drafts(arrived, arrived.drafts, mapping)
        if mapping is not arrived.batch_mapping:
            mapping.free()
        taken_over = (slot for slot in arrived.mapping if slot != DROPPED)
        self.slots.deliver(taken_over, f"tokens.receive of step {arrived.step}")

    def mapping_of(self, arrived: Arrived) -> Buffer:
        """The slots on the device: the mapping of the batch, or a new one if rows were dropped."""
        return arrived.batch_mapping if arrived.whole else self.put(arrived.mapping, "arrived.mapping")

    def store_drafts(self, arrived: Arrived, drafts: Buffer, mapping: Buffer) -> None:
        self.table.store_drafts(drafts, mapping)

    def update_slots(self, batch: Batch) -> None:
        """Free slots, then fill them."""
        for request in self.in_order(batch.freed):
            self.free(request)
        if batch.admitted:
            slots = tuple(self.slot_for(one) for one in batch.admitted)
            known = tuple(one.tokens for one in batch.admitted)
            self.table.admit(slots, known)

    def slot_for(self, admission: Admission) -> int:
        """A slot for a request. If its session holds a slot, the worker frees that slot first."""
        if admission.continues is not None:
            self.free(admission.continues)
        return self.slots.hand_out(admission.request)

    def free(self, request: int) -> None:
        slot = self.slots.give_back(request)
        if self.tokens is not None:
            self.tokens.freed(slot)

    def in_order(self, freed: Sequence[int]) -> Sequence[int]:
        """The order in which slots are freed. It decides which slots come next, so it is the same on all stages."""
        return sorted(freed)

    def prepare(self, batch: Batch) -> InputBatch:
        slots = tuple(self.slots.of[row.request] for row in batch.rows)
        mapping, spans = self.staging.put(slots, "mapping"), batch.spans()
        inputs = self.table.inputs(mapping, spans)
        if self.tokens is not None:
            self.rank.decide("need", self.tokens.need(batch.rows), "pp")
        drafts = 0 if self.skips_drafts(batch) else self.drafts
        if self.tokens is not None and self.drafts:
            self.rank.decide("drafts", drafts, "pp")
        return InputBatch(batch, slots, mapping, spans, inputs, drafts=drafts)

    def skips_drafts(self, batch: Batch) -> bool:
        """Whether this step proposes no drafts. All stages decide alike, as the last one relays them (6.5)."""
        return batch.drafts == 0

    async def forward(self, input_batch: InputBatch, received: Received | None) -> None:
        """Run this stage's layers: take the input from the stage before, and send the output to the one after."""
        count = input_batch.batch.num_tokens
        if self.transfer is not None and received is not None:
            for name, buffer in self.transfer.first_access(received).items():
                target = self.hidden[name].view(0, count)
                self.main.launch(f"{name}.copy", kernels.copy, reads=[buffer], writes=[target])
                buffer.free()
        self.left = await self.model.run(input_batch, self.outgoing)
        self.run_experts(count)
        if self.transfer is not None and not self.is_last:
            await self.transfer.send(self.left)

    def run_experts(self, tokens: int) -> None:
        """Stand for the experts of a layer. All replicas take part in every step."""
        if self.replicas > 1:
            load = self.main.alloc((self.experts.size,), "int32", "experts.load")
            self.main.launch("experts.load", kernels.put_one, writes=[load], args=(self.experts.index, tokens))
            self.experts.all_reduce(load, self.main, site="experts.combine")
            load.free()

    def sample(self, input_batch: InputBatch) -> tuple[Buffer | None, Buffer | None]:
        """The last stage samples and broadcasts the tokens; the others post the receive."""
        if not self.is_last:
            assert self.tokens is not None
            rows, slots, mapping = input_batch.batch.rows, input_batch.slots, input_batch.mapping
            all_needed = self.tokens.receive(rows, slots, mapping, input_batch.drafts)
            self.table.advance(input_batch.mapping, input_batch.lengths)
            if not all_needed:
                self.settle(input_batch, self.tokens.need(input_batch.batch.rows))
            return None, None
        rows = input_batch.batch.rows
        width = self.sampled_width(rows)
        tokens = self.main.alloc((len(rows), width), self.token_dtype, "tokens.sampled")
        sampled = self.main.alloc((len(rows),), "int32", "counts.sampled")
        rejected = self.main.alloc((len(rows),), "int32", "counts.rejected")
        self.main.launch(
            "sample",
            kernels.sample,
            reads=[*self.left.values(), input_batch.inputs],
            writes=[tokens, sampled, rejected],
            args=(input_batch.spans, input_batch.masks) if input_batch.masks else (input_batch.spans,),
        )
        self.after_sampling(input_batch, tokens, sampled, rejected)
        self.slots.deliver(input_batch.slots, f"sample of step {self.rank.step}")
        return tokens, sampled

    def after_sampling(self, input_batch: InputBatch, tokens: Buffer, sampled: Buffer, rejected: Buffer) -> None:
        """Send the tokens, then update this stage's table, then run the drafter (10.1, rows 13 to 16)."""
        if self.tokens is not None:
            self.tokens.broadcast(input_batch.batch.rows, tokens, sampled, rejected)
        self.table.update(tokens, sampled, rejected, input_batch.mapping, input_batch.lengths)
        rejected.free()
        if input_batch.drafts:
            self.draft_tokens(input_batch)

    def settle(self, input_batch: InputBatch, need: tuple[bool, ...] | None) -> None:
        """Settle the rows that receive no tokens, such as chunks of a prompt: no stage rejects anything of them."""
        needed = need or (False,) * len(input_batch.slots)
        rest = tuple(DROPPED if waits else slot for slot, waits in zip(input_batch.slots, needed, strict=True))
        mapping = self.put(rest, "settled.mapping")
        self.table.settle(mapping)
        mapping.free()

    def sampled_width(self, rows: Sequence[Row]) -> int:
        """Places for tokens of a row, as the sampler has them."""
        return 1 + self.drafts if any(row.drafts for row in rows) else 1

    def draft_tokens(self, input_batch: InputBatch) -> None:
        """Propose what may follow the tokens just sampled, and send it after them."""
        self.table.propose(input_batch.mapping)
        self.send_drafts(input_batch)

    def send_drafts(self, input_batch: InputBatch) -> None:
        if self.tokens is not None:
            drafts = self.main.alloc((len(input_batch.slots), input_batch.drafts), "int64", "drafts.sent")
            self.main.launch("drafts.gather", gather, reads=[self.table.drafts, input_batch.mapping], writes=[drafts])
            self.tokens.broadcast_drafts(drafts)
            drafts.free()

    def put(self, values: tuple[int, ...], site: str) -> Buffer:
        """Copy numbers of the host to the device."""
        buffer = self.main.alloc((len(values),), "int64", site)
        self.main.launch("put", kernels.put, writes=[buffer], args=(values,), cost=0)
        return buffer
