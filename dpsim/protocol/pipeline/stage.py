"""One pipeline stage, put together: the engine's calls, a worker's step, and what must come of it.

Every stage has the same history of calls (`dpsim.protocol.pipeline.history`) and works through it alone. A step of a
worker is that of vLLM's V2 runner (specification 10.1): wait for the sends of the step before, receive, take over the
tokens that were sampled `stages` steps ago, free slots and fill them, prepare the inputs, run the layers, send; then
the last stage samples and broadcasts, and the others post the receive of its tokens. A batch without tokens only takes
over, frees and fills. Slots are handed out last in, first out, by each stage for itself, from what the engine tells.

When the engine takes a result, each stage reads what the inputs of that step were and compares them with the oracle:
tokens, positions (so the computed counts), lengths, histories. What differs is raised, with request, step and the op
that delivered the token. The host waits for nothing else of its device. Stages are compared with each other, too, as
mirrors that may drift. Tensor-parallel ranks are not: each is held against the oracle, which is more (I-ES-10).

Replicas share the experts of the model. One without tokens runs a dummy step, so that the others' experts find it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from dpsim.interface import Buffer, Event, Rank
from dpsim.protocol.model import kernels as model
from dpsim.protocol.model.kernels import Span
from dpsim.protocol.pipeline.batches import Batch, Row
from dpsim.protocol.pipeline.history import History
from dpsim.protocol.pipeline.request_table import RequestTable, gather, state
from dpsim.protocol.pipeline.sampled_tokens import DROPPED, Arrived, SampledTokens
from dpsim.protocol.pipeline.staging import Staging
from dpsim.protocol.pipeline.transfer import Received, Transfer
from dpsim.protocol.pipeline.witness import LostTokens, Witness

LAYERS_NS = 20_000  # reference: one small layer


class Step(NamedTuple):
    """A batch as a stage runs it: the rows' slots, on the host and on the device, and where their tokens lie."""

    batch: Batch
    slots: tuple[int, ...]
    mapping: Buffer
    spans: tuple[Span, ...]
    inputs: Buffer


class Result(NamedTuple):
    """What a step leaves for the one who takes its result. `delivered`: the ops that last brought tokens, by row."""

    step: int
    batch: Batch
    inputs: Buffer | None
    tokens: Buffer | None
    counts: Buffer | None
    delivered: tuple[str | None, ...]
    done: Event


class Stage:
    """One rank's part. Methods in the order in which a run calls them."""

    def __init__(
        self,
        rank: Rank,
        history: History,
        tokens: type[SampledTokens],
        transfer: type[Transfer],
        tensor_parallel_size: int = 1,
    ) -> None:
        self.rank, self.history, config = rank, history, history.config
        self.stages, self.replicas = history.stages, rank.device("dp").size
        self.mirrors = "pp" if self.stages > 1 else "ep"  # who has to have the same state
        self.index = rank.device("pp").index if self.stages > 1 else 0
        self.is_first, self.is_last = self.index == 0, self.index == self.stages - 1
        self.main, self.output = rank.stream("main"), rank.stream("output")
        slots, width = config.max_num_seqs, history.most_tokens
        self.drafts = config.num_speculative_tokens
        self.layers = tuple(model.stage_layers(self.index, self.stages))
        self.table = RequestTable(self.main, slots, width, self.drafts)
        self.cache = state(self.main, (len(self.layers), slots, width), "int64", "kv_cache")
        # What a forward takes and leaves: at the same place in each step, as a graph needs it.
        largest = history.largest
        self.hidden = {name: state(self.main, (largest,), "int64", f"{name}.in") for name in ("hidden", "residual")}
        self.outgoing = {name: state(self.main, (largest,), "int64", f"{name}.out") for name in ("hidden", "residual")}
        self.experts = rank.device("ep")
        self.staging = Staging(rank, self.rotations(), slots)
        self.transfer = transfer(rank, tensor_parallel_size) if self.stages > 1 else None
        self.tokens = tokens(rank, slots, self.drafts) if self.stages > 1 else None
        self.free = list(range(slots))
        self.slot_of: dict[int, int] = {}
        self.delivered: dict[int, str] = {}
        self.results: deque[Result] = deque()
        self.heard = 0  # batches whose results were taken
        self.witness = Witness(history.oracles)

    # ---- the engine

    async def run(self) -> None:
        """All calls, then the end."""
        for number, call in enumerate(self.history.calls):
            self.rank.step = number
            if call.batch is not None:
                await self.execute(call.batch)
            if call.takes:
                await self.take(self.next_result())
            if call.dummy:
                await self.dummy()
        await self.drain()

    def next_result(self) -> Result:
        """The oldest: results are told in the order of the batches (I-PS-6)."""
        return self.results.popleft()

    async def take(self, result: Result) -> None:
        """Wait for a step's result, and look at it. The scheduler takes it for that of the oldest batch."""
        number, oldest = result.batch.number, self.heard
        assert number == oldest, f"the result of batch {number} is told as that of batch {oldest}"
        self.heard += 1
        self.output.wait(result.done)
        if result.inputs is None:
            return
        inputs = (await result.inputs.read("inputs.read", self.output)).tolist()
        result.inputs.free()
        self.witness.inputs(result.step, result.batch.rows, inputs, result.delivered)
        self.rank.decide("inputs", (number, tuple(inputs[0]), tuple(inputs[1]), tuple(inputs[2])), self.mirrors)
        if result.tokens is not None and result.counts is not None:
            tokens = (await result.tokens.read("tokens.read", self.output)).tolist()
            counts = (await result.counts.read("counts.read", self.output)).tolist()
            result.tokens.free()
            result.counts.free()
            self.rank.decide("sampled", (number, tuple(map(tuple, tokens)), tuple(map(tuple, counts))), self.mirrors)
            self.witness.sampled(result.step, result.batch.rows, tokens, counts)

    async def drain(self) -> None:
        """The end: sends are done, nothing that is needed is left, the last stage said what the model says."""
        if self.transfer is not None:
            await self.transfer.begin()
        assert not self.results, f"{len(self.results)} results were never taken"
        if self.tokens is not None:
            missed = self.tokens.drain()
            if missed:
                raise LostTokens(f"somebody needs the tokens of the steps {missed}, which were never taken over")
        self.witness.end()
        await self.table.last.read("state.read")

    def rotations(self) -> int:
        """Buffers for what the host tells the device: one for each batch that may be under way (I-PS-13)."""
        return self.stages + int(self.history.config.async_scheduling)

    # ---- a step of the worker

    async def dummy(self) -> None:
        """Others compute, and their experts need this rank. No request, queue or neighbour hears of it (I-PP-10)."""
        self.rank.probe("pp.dummy_step")
        self.run_experts(0)

    async def execute(self, batch: Batch) -> None:
        """One step; its result goes into the queue of batches."""
        if self.transfer is not None:
            await self.transfer.begin()
        received = None
        if self.transfer is not None and self.transfers(batch) and not self.is_first:
            received = await self.transfer.receive()
        self.before_inputs(batch)
        if not batch.rows:
            self.results.append(Result(self.rank.step, batch, None, None, None, (), self.main.record()))
            return
        step = self.prepare(batch)
        await self.forward(step, received)
        delivered = tuple(self.delivered.get(slot) for slot in step.slots)
        tokens, counts = self.sample(step)
        self.results.append(Result(self.rank.step, batch, step.inputs, tokens, counts, delivered, self.main.record()))
        step.mapping.free()

    def transfers(self, batch: Batch) -> bool:
        """Whether hidden states are sent and received in this step (I-PS-9)."""
        return batch.num_tokens > 0

    def before_inputs(self, batch: Batch) -> None:
        """Tokens are taken over first, so that what a slot's new owner begins with comes after (6.8)."""
        self.consume()
        self.update_slots(batch)

    def consume(self) -> None:
        """Take over the tokens that were sampled as many steps ago as there are stages."""
        if self.tokens is None or self.is_last:
            return
        arrived = self.tokens.consume()
        if arrived is None:
            return
        self.take_over(arrived)
        arrived.free()

    def take_over(self, arrived: Arrived) -> None:
        mapping = self.put(arrived.mapping, "arrived.mapping")
        # Their lengths counted as computed when they ran, so only what was rejected is left.
        self.table.update(arrived.tokens, arrived.counts, mapping, (0,) * len(arrived.mapping))
        if arrived.drafts is not None:
            self.store_drafts(arrived, arrived.drafts, mapping)
        mapping.free()
        for slot in arrived.mapping:
            if slot != DROPPED:
                self.delivered[slot] = f"tokens.receive of step {arrived.step}"

    def store_drafts(self, arrived: Arrived, drafts: Buffer, mapping: Buffer) -> None:
        self.table.store_drafts(drafts, mapping)

    def update_slots(self, batch: Batch) -> None:
        """Free, then fill."""
        for request in self.in_order(batch.freed):
            slot = self.slot_of.pop(request)
            self.free.append(slot)
            self.delivered.pop(slot, None)
            if self.tokens is not None:
                self.tokens.freed(slot)
        for one in batch.admitted:
            self.slot_of[one.request] = self.free.pop()
        if batch.admitted:
            slots = tuple(self.slot_of[one.request] for one in batch.admitted)
            known = tuple(one.tokens for one in batch.admitted)
            self.table.admit(slots, known)

    def in_order(self, freed: Sequence[int]) -> Sequence[int]:
        """The order of freeing is that of the slots handed out later: the same everywhere."""
        return sorted(freed)

    def prepare(self, batch: Batch) -> Step:
        slots = tuple(self.slot_of[row.request] for row in batch.rows)
        spans, start = [], 0
        for row in batch.rows:
            spans.append(Span(start, row.scheduled, row.prefilling, row.samples))
            start += row.scheduled
        mapping = self.staging.put(slots, "mapping")
        inputs = self.table.inputs(mapping, tuple(spans))
        if self.tokens is not None:
            self.rank.decide("need", self.tokens.need(batch.rows), "pp")
        return Step(batch, slots, mapping, tuple(spans), inputs)

    async def forward(self, step: Step, received: Received | None) -> None:
        """This stage's layers, from the stage before to the one after."""
        count = step.batch.num_tokens
        hidden = {name: buffer.view(0, count) for name, buffer in self.hidden.items()}
        if self.is_first:
            self.main.launch("embed", model.embed, reads=[step.inputs], writes=[*hidden.values()])
        elif self.transfer is not None and received is not None:
            for name, buffer in self.transfer.first_access(received).items():
                self.main.launch(f"{name}.copy", model.copy, reads=[buffer], writes=[hidden[name]])
                buffer.free()
        outgoing = {name: buffer.view(0, count) for name, buffer in self.outgoing.items()}
        self.main.launch(
            "layers",
            model.forward,
            reads=[*hidden.values(), step.inputs, step.mapping],
            writes=[self.cache, *outgoing.values()],
            args=(self.layers, step.spans),
            cost=LAYERS_NS * len(self.layers),
        )
        self.run_experts(count)
        if self.transfer is not None and not self.is_last:
            await self.transfer.send(outgoing)

    def run_experts(self, tokens: int) -> None:
        """Stands for the experts of a layer: where there are several replicas, all take part in every step."""
        if self.replicas > 1:
            load = self.main.alloc((self.experts.size,), "int32", "experts.load")
            self.main.launch("experts.load", model.put_one, writes=[load], args=(self.experts.index, tokens))
            self.experts.all_reduce(load, self.main, site="experts.combine")
            load.free()

    def sample(self, step: Step) -> tuple[Buffer | None, Buffer | None]:
        """The last stage samples and tells the others, who prepare to hear it."""
        lengths = tuple(row.scheduled for row in step.batch.rows)
        if not self.is_last:
            assert self.tokens is not None
            all_needed = self.tokens.receive(step.batch.rows, step.slots)
            self.table.advance(step.mapping, lengths)
            if not all_needed:
                self.settle(step, self.tokens.need(step.batch.rows))
            return None, None
        rows, count = step.batch.rows, step.batch.num_tokens
        width = self.sampled_width(rows)
        tokens = self.main.alloc((len(rows), width), "int64", "tokens.sampled")
        counts = self.main.alloc((2, len(rows)), "int32", "counts.sampled")
        hidden = [buffer.view(0, count) for buffer in self.outgoing.values()]
        self.main.launch(
            "sample", model.sample, reads=[*hidden, step.inputs], writes=[tokens, counts], args=(step.spans,)
        )
        if self.tokens is not None:
            self.tokens.broadcast(rows, tokens, counts)
        self.table.update(tokens, counts, step.mapping, lengths)
        if self.drafts:
            self.draft_tokens(step)
        for slot in step.slots:
            self.delivered[slot] = f"sample of step {self.rank.step}"
        return tokens, counts

    def settle(self, step: Step, need: tuple[bool, ...] | None) -> None:
        """No tokens come for a chunk of a prompt: what was computed of it is final at once, with nothing rejected."""
        needed = need or (False,) * len(step.slots)
        rest = tuple(DROPPED if waits else slot for slot, waits in zip(step.slots, needed, strict=True))
        mapping = self.put(rest, "settled.mapping")
        self.table.settle(mapping)
        mapping.free()

    def sampled_width(self, rows: Sequence[Row]) -> int:
        """Places for tokens of a row, as the sampler has them."""
        return 1 + self.drafts if any(row.drafts for row in rows) else 1

    def draft_tokens(self, step: Step) -> None:
        """Propose what may come after the tokens just sampled, and send it after them."""
        self.table.propose(step.mapping)
        if self.tokens is not None:
            drafts = self.main.alloc((len(step.slots), self.drafts), "int64", "drafts.sent")
            self.main.launch("drafts.gather", gather, reads=[self.table.drafts, step.mapping], writes=[drafts])
            self.tokens.broadcast_drafts(drafts)
            drafts.free()

    def put(self, values: tuple[int, ...], site: str) -> Buffer:
        """Numbers of the host, on the device."""
        buffer = self.main.alloc((len(values),), "int64", site)
        self.main.launch("put", model.put, writes=[buffer], args=(values,), cost=0)
        return buffer
