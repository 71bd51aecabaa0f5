"""The worker of a pipeline stage: it runs the remote calls of the engine, one after the other.

The engine makes three calls (specification 7.3):

    execute    run one step of vLLM's V2 runner up to the hidden states (specification 10.1). Wait for the sends of
               the step before, receive, and store the tokens sampled `stages` steps ago. Then free and assign slots,
               prepare the inputs, run the layers, and send. For a batch without tokens, only store, free and assign
    sample     for the batch executed last: the last stage samples and broadcasts, the others post the receive
    dummy      run only the experts, because other replicas compute

Between `execute` and `sample`, a worker keeps the batch in `executed` (specification 10.6). `execute` overwrites it,
even if it is set, and `sample` clears it. If it is None, `sample` returns None, and the engine reports an error. A
dummy step also sets it, except on the last stage, where it clears it. For a batch with tokens, `sample` returns the
result; for a batch without tokens, `execute` does.

Sources: specification 6.8, 7.2, 7.3, 10.1 and 10.6.
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
"""The batch of a dummy step: one token, which belongs to no request."""


class PipelineWorker:
    """The worker of one rank. A run calls the methods in the order of this file."""

    token_dtype: DType = "int64"
    """The dtype of the tokens that the sampler writes."""

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
        self.mirrors = "pp" if self.stages > 1 else "ep"  # the group whose members must have the same state
        self.index = rank.device("pp").index if self.stages > 1 else 0
        self.is_first, self.is_last = self.index == 0, self.index == self.stages - 1
        self.main, self.output = rank.stream("main"), rank.stream("output")
        slots, width = config.max_num_seqs, history.most_tokens
        self.drafts = config.num_speculative_tokens
        self.layers = tuple(kernels.stage_layers(self.index, self.stages))
        self.table = RequestTable(self.main, slots, width, self.drafts)
        rows = slots + layers.spare_slots
        self.cache = state(self.main, (len(self.layers), rows, width), "int64", "kv_cache")
        # A graph reads its inputs and writes its outputs at fixed addresses, so all forwards share these buffers.
        largest = max(history.largest, layers.largest(config))
        self.hidden = {name: state(self.main, (largest,), "int64", f"{name}.in") for name in ("hidden", "residual")}
        self.outgoing = {name: state(self.main, (largest,), "int64", f"{name}.out") for name in ("hidden", "residual")}
        self.experts = rank.device("ep")
        self.staging = Staging(rank, self.rotations(), slots)
        self.transfer = transfer(rank, tensor_parallel_size) if self.stages > 1 else None
        self.tokens = tokens(rank, slots, self.drafts) if self.stages > 1 else None
        self.slots = RequestSlots(slots)
        self.dummy_state = state(self.main, (1,), "int64", "mapping.dummy") if self.replicas > 1 else None
        self.executed: InputBatch | None = None  # the record of the batch that is sampled next
        self.left: dict[str, Buffer] = {}  # the outputs of the last forward, by name
        own = rank, config, self.layers, self.cache, self.hidden, self.is_first, tensor_parallel_size
        self.model = layers(*own)

    def rotations(self) -> int:
        """The number of staging buffers: one for each batch that may be in flight (invariant I-PS-13)."""
        return self.stages + int(self.history.config.async_scheduling)

    # ---- remote calls

    async def dummy(self) -> None:
        """Run only the experts, as other replicas compute. No request, queue or other stage changes (I-PP-10)."""
        self.rank.probe("pp.dummy_step")
        self.run_experts(0)
        self.executed = None if self.is_last else self.dummy_record()

    def dummy_record(self) -> InputBatch:
        """What a dummy step leaves in `executed`: one token of no request, in the first slot."""
        assert self.dummy_state is not None, "only replicas run dummy steps"
        return InputBatch(DUMMY, (0,), self.dummy_state, DUMMY.spans(), self.dummy_state)

    async def execute(self, batch: Batch) -> StepResult | None:
        """Run one step. Returns the result of a batch without tokens; else `sample_tokens` returns it."""
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
        """Sample the batch executed last; None if there is none. `masks`: a row's kinds of tokens, by place."""
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
        """Agree with other replicas. Here each rank computes it without a message (specification 10.1, row 6)."""

    def transfers(self, batch: Batch) -> bool:
        """Whether stages send and receive hidden states in this step: only with tokens (invariant I-PS-9)."""
        return batch.num_tokens > 0

    def before_inputs(self, batch: Batch) -> None:
        """Store received tokens, then update slots: new owners overwrite them (specification 6.8)."""
        self.consume()
        self.update_slots(batch)

    def consume(self) -> None:
        """Store the tokens that the last stage sampled as many steps ago as there are stages."""
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
        """The slots on the device: the mapping of the batch, or a new mapping if rows are dropped."""
        return arrived.batch_mapping if arrived.whole else self.put(arrived.mapping, "arrived.mapping")

    def store_drafts(self, arrived: Arrived, drafts: Buffer, mapping: Buffer) -> None:
        self.table.store_drafts(drafts, mapping)

    def update_slots(self, batch: Batch) -> None:
        """Free the slots of ended requests, then assign slots to new ones."""
        for request in self.in_order(batch.freed):
            self.free(request)
        if batch.admitted:
            slots = tuple(self.slot_for(one) for one in batch.admitted)
            known = tuple(one.tokens for one in batch.admitted)
            self.table.admit(slots, known)

    def slot_for(self, admission: Admission) -> int:
        """Assign a slot to a request. If its session keeps a slot, the worker frees that slot first."""
        if admission.continues is not None:
            self.free(admission.continues)
        return self.slots.hand_out(admission.request)

    def free(self, request: int) -> None:
        slot = self.slots.give_back(request)
        if self.tokens is not None:
            self.tokens.freed(slot)

    def in_order(self, freed: Sequence[int]) -> Sequence[int]:
        """The order in which slots become free. The next slots depend on it, so it must be equal on all stages."""
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
        """Whether this step proposes no drafts. All stages must decide alike (specification 6.5)."""
        return batch.drafts == 0

    async def forward(self, input_batch: InputBatch, received: Received | None) -> None:
        """Run this stage's layers, on the hidden states of the stage before, and send the output to the next stage."""
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
        """Run the stand-in for the experts: one all-reduce, in which all replicas take part in every step."""
        if self.replicas > 1:
            load = self.main.alloc((self.experts.size,), "int32", "experts.load")
            self.main.launch("experts.load", kernels.put_one, writes=[load], args=(self.experts.index, tokens))
            self.experts.all_reduce(load, self.main, site="experts.combine")
            load.free()

    def sample(self, input_batch: InputBatch) -> tuple[Buffer | None, Buffer | None]:
        """Sample and broadcast the tokens on the last stage; on the others, post the receive."""
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
        """Send the tokens, then update this stage's table, then run the drafter (specification 10.1, rows 13 to 16)."""
        if self.tokens is not None:
            self.tokens.broadcast(input_batch.batch.rows, tokens, sampled, rejected)
        self.table.update(tokens, sampled, rejected, input_batch.mapping, input_batch.lengths)
        rejected.free()
        if input_batch.drafts:
            self.draft_tokens(input_batch)

    def settle(self, input_batch: InputBatch, need: tuple[bool, ...] | None) -> None:
        """Make the computed counts final for rows without a sampled token, such as chunks of a prompt."""
        needed = need or (False,) * len(input_batch.slots)
        rest = tuple(DROPPED if waits else slot for slot, waits in zip(input_batch.slots, needed, strict=True))
        mapping = self.put(rest, "settled.mapping")
        self.table.settle(mapping)
        mapping.free()

    def sampled_width(self, rows: Sequence[Row]) -> int:
        """The places for tokens in a row, as the sampler writes them."""
        return 1 + self.drafts if any(row.drafts for row in rows) else 1

    def draft_tokens(self, input_batch: InputBatch) -> None:
        """Propose drafts after the tokens just sampled, and send them."""
        self.table.propose(input_batch.mapping)
        self.send_drafts(input_batch)

    def send_drafts(self, input_batch: InputBatch) -> None:
        if self.tokens is not None:
            drafts = self.main.alloc((len(input_batch.slots), input_batch.drafts), "int64", "drafts.sent")
            self.main.launch("drafts.gather", gather, reads=[self.table.drafts, input_batch.mapping], writes=[drafts])
            self.tokens.broadcast_drafts(drafts)
            drafts.free()

    def put(self, values: tuple[int, ...], site: str) -> Buffer:
        """Copy host numbers to the device."""
        buffer = self.main.alloc((len(values),), "int64", site)
        self.main.launch("put", kernels.put, writes=[buffer], args=(values,), cost=0)
        return buffer
