"""One data-parallel step, put together: batch, agreement, second dispatch, a stand-in for the model.

The order is that of vLLM's V1 runner (specification 1.6 and 10.2): dispatch alone, agree, dispatch again with the
agreed count in the agreed mode, check that this changed nothing, run. The model is one kernel and one expert
all-reduce per microbatch. The all-reduce stands for the expert all-gather and reduce-scatter: each rank writes its
own rows of a buffer that holds the rows of *all* ranks as it believes they were agreed, so ranks that decided
differently issue collectives of different sizes, as they would in production. Its rows hold the tokens that its
scheduler gave it, then padding, and a witness compares what comes back (`dpsim.protocol.data_parallel.witness`).

`DataParallelStep` is made to be varied: each method is one decision, and a variant overrides one of them.

    protocol: {name: dp_batch, form: source-000}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dpsim.config import EngineConfig, RuntimeMode, Topology
from dpsim.interface import Buffer, HostArray, Rank
from dpsim.ops import DECISION_VALUE, KIND, SITE, STEP, RawRecord
from dpsim.program import Arguments, Program, Unsuitable
from dpsim.protocol.data_parallel.batch import FORMS, BatchForm, LocalBatch, StepPlan
from dpsim.protocol.data_parallel.graphs import ALL_MODES, Descriptor, Dispatcher
from dpsim.protocol.data_parallel.microbatch import slice_sizes, wants_microbatching
from dpsim.protocol.data_parallel.timeline import Batch, Timeline
from dpsim.protocol.data_parallel.witness import Witness
from dpsim.protocol.model import rows
from dpsim.registry import register_protocol, with_variant

ATTENTION_NS = 20_000  # reference: one small layer
TOKEN_NS = 20  # reference: per token of it


class Execution(NamedTuple):
    """What a rank runs: the plan it believes in, its own mode and token count after the second dispatch, and the batch
    that they are for.
    """

    plan: StepPlan
    mode: RuntimeMode
    num_tokens: int
    batch: Batch


Microbatch: TypeAlias = tuple[Buffer, slice]
"""A microbatch on the device: the rows of all ranks, and which of them are this rank's."""


class DataParallelStep:
    """The step of one rank. Methods in the order in which a step calls them."""

    def __init__(self, rank: Rank, dp_index: int, config: EngineConfig, form: BatchForm) -> None:
        self.rank = rank
        self.dp_index = dp_index
        self.config = config
        self.form = form
        self.dispatcher = Dispatcher(config)
        self.host, self.device = rank.host("dp_cpu"), rank.device("dp")
        self.experts, self.main = rank.device("ep"), rank.stream("main")
        self.in_flight: list[tuple[int, list[Microbatch]]] = []  # (step, its microbatches)

    async def run(self, timeline: Timeline) -> None:
        """All steps of a workload."""
        self.witness = Witness(timeline, self.dp_index, shares=self.experts.size // self.host.size)
        for step in range(timeline.steps):
            self.rank.step = step
            await self.step(timeline.batches(step)[self.dp_index])
        while self.in_flight:
            await self.retire()
        self.witness.end()

    async def step(self, batch: Batch) -> None:
        """One step; a rank without tokens takes part with a dummy batch (1.8)."""
        if not batch.num_tokens:
            self.rank.probe("dp.dummy_batch")
        await self.execute(await self.coordinate(batch if batch.num_tokens else self.dummy_batch()))

    def dummy_batch(self) -> Batch:
        """q tokens, a uniform decode by construction (1.8): it must be graph-eligible at size q (I-DP-12)."""
        q = self.config.uniform_decode_query_len
        return Batch((), q, q, is_dummy=True)

    # ---- coordination

    async def coordinate(self, batch: Batch) -> Execution:
        """Agree with the other ranks on how this step runs (1.6)."""
        mode, descriptor = self.dispatch(batch, batch.num_tokens, self.first_modes(batch))
        local = self.local_batch(batch, mode, descriptor)
        if self.host.size == 1:
            plan = StepPlan(False, None, mode)
        else:
            plan = self.plan(await self.gather(self.form.column(local)), local)
        self.rank.decide("plan", (plan.microbatched, plan.num_tokens, int(plan.mode)), "dp_cpu")
        agreed = plan.num_tokens[self.host.index] if plan.num_tokens else local.num_tokens_padded
        self.probe(local, plan, agreed)
        mode, descriptor = self.second_dispatch(batch, agreed, plan)
        self.rank.decide("mode", (mode.name, plan.microbatched), "dp_cpu")
        assert descriptor.num_tokens == agreed, (
            f"the second dispatch pads {agreed} agreed tokens to {descriptor.num_tokens} in mode {mode.name}"
        )
        return Execution(plan, mode, agreed, batch)

    def probe(self, local: LocalBatch, plan: StepPlan, agreed: int) -> None:
        """In what this rank gave way to the others."""
        if plan.microbatched:
            self.rank.probe("dp.microbatched")
        elif local.wants_microbatching:
            self.rank.probe("dp.not_microbatched")
        if agreed > local.num_tokens_padded:
            self.rank.probe("dp.padded_further")
        if plan.mode < local.mode:
            self.rank.probe("dp.lower_mode")

    def first_modes(self, batch: Batch) -> frozenset[RuntimeMode]:
        """What the first dispatch may choose: a batch that is forced to run eagerly chooses NONE."""
        return frozenset({RuntimeMode.NONE}) if batch.force_eager else ALL_MODES

    def dispatch(
        self, batch: Batch, num_tokens: int, allowed: frozenset[RuntimeMode]
    ) -> tuple[RuntimeMode, Descriptor]:
        """Look `num_tokens` up among the graphs."""
        uniform = batch.uniform_decode(self.config.uniform_decode_query_len)
        return self.dispatcher.dispatch(num_tokens, uniform, has_lora=batch.num_loras > 0, allowed=allowed)

    def local_batch(self, batch: Batch, mode: RuntimeMode, descriptor: Descriptor) -> LocalBatch:
        """What this rank tells the others. Padding is wanted wherever graphs are configured at all (0.14)."""
        assert descriptor.num_tokens >= batch.num_tokens, f"{batch.num_tokens} tokens padded to {descriptor.num_tokens}"
        wants_padding = self.config.cudagraph_mode != "NONE"
        return LocalBatch(
            batch.num_tokens, descriptor.num_tokens, self.wants_microbatching(batch, descriptor), wants_padding, mode
        )

    def wants_microbatching(self, batch: Batch, descriptor: Descriptor) -> bool:
        """This rank's wish, on its unpadded count (1.5, step 1)."""
        uniform = batch.uniform_decode(self.config.uniform_decode_query_len)
        return wants_microbatching(batch.num_tokens, uniform, self.config)

    async def gather(self, column: tuple[int, ...]) -> HostArray:
        """The table of all columns, shape (rows, ranks) int32: one SUM all-reduce, over gloo or NCCL (1.4)."""
        if self.syncs_on_host():
            table = np.zeros((self.form.rows, self.host.size), np.int32)
            table[:, self.host.index] = column
            return await self.host.all_reduce(table, site="dp.agree")
        buffer = self.main.alloc((self.form.rows, self.device.size), "int32", "dp.table")
        self.main.launch(
            "dp.fill", fill_column, writes=[buffer], args=(self.device.index, column), cost=ATTENTION_NS // 4
        )
        self.device.all_reduce(buffer, self.main, site="dp.agree")
        table = await buffer.read("dp.read")
        buffer.free()
        return table

    def syncs_on_host(self) -> bool:
        return self.config.syncs_on_host

    def plan(self, table: HostArray, local: LocalBatch) -> StepPlan:
        """The decision. A healthy rank does not look at its own batch any more."""
        return self.form.decide(table, self.config)

    def second_dispatch(self, batch: Batch, agreed: int, plan: StepPlan) -> tuple[RuntimeMode, Descriptor]:
        """Dispatch again with the agreed count (1.6 d): it may change neither count nor mode (I-DP-9). A batch that is
        forced to run eagerly does so whatever was agreed.
        """
        alone = plan.num_tokens is None or batch.force_eager
        allowed = self.first_modes(batch) if alone else frozenset(self.form.allowed_modes(plan.mode))
        return self.dispatch(batch, agreed, allowed)

    # ---- the stand-in for the model

    async def execute(self, execution: Execution) -> None:
        """One kernel and one expert all-reduce per microbatch, then wait: for this step, or for the one before if
        scheduling is asynchronous.
        """
        plan, batch, index = execution.plan, execution.batch, self.host.index
        counts = plan.num_tokens or (execution.num_tokens,)
        assert counts[index] == execution.num_tokens, (
            f"a forward of {execution.num_tokens} tokens, where {counts[index]} are agreed for this rank (I-DP-6)"
        )
        if plan.microbatched:
            cuts = list(zip(*(slice_sizes(count, self.config.num_ubatches) for count in counts), strict=True))
        else:
            cuts = [counts]
        parts, start, real = [], 0, batch.num_tokens
        for number, sizes in enumerate(cuts):
            assert start < real, (
                f"empty slice: microbatch {number} starts at token {start} of {real} real ones (I-DP-7)"
            )
            stop = start + sizes[index]
            whole = not start and real <= stop
            pieces = batch.scheduled if whole else rows.cut(batch.scheduled, start, stop)
            parts.append(self.launch_layer(sum(sizes), sum(sizes[:index]), sizes[index], pieces))
            start = stop
        self.in_flight.append((self.rank.step, parts))
        while len(self.in_flight) > self.config.async_scheduling:
            await self.retire()

    def launch_layer(self, total: int, start: int, count: int, pieces: tuple[rows.Piece, ...]) -> Microbatch:
        """Write this rank's tokens into its rows of a buffer for everyone's, and sum it over the expert group."""
        buffer = self.main.alloc(total, "int32", "experts.buffer")
        cost = ATTENTION_NS + count * TOKEN_NS
        self.main.launch("attention", rows.write, writes=[buffer], args=(start, pieces), cost=cost)
        self.experts.all_reduce(buffer, self.main, site="experts.combine")
        return buffer, slice(start, start + count)

    async def retire(self) -> None:
        """Wait for the oldest step. Every rank has to see the same sums, and in its own rows its own tokens."""
        step, parts = self.in_flight.pop(0)
        own = []
        for buffer, mine in parts:
            result = await buffer.read("experts.read")
            buffer.free()
            self.rank.decide("experts", int(result.sum(dtype=np.int64)), "ep")
            own.append(result[mine])
        self.witness.came(step, own)


def fill_column(table: Any, index: int, column: tuple[int, ...]) -> None:
    """Kernel: zero but for this rank's column."""
    table[:] = 0
    for row, value in enumerate(column):
        table[row, index] = value


class DataParallelSetup(NamedTuple):
    config: EngineConfig
    topology: Topology
    timeline: Timeline
    form: BatchForm
    step: type[DataParallelStep]


@register_protocol("dp_batch", forms=tuple(FORMS))
class DataParallelBatch(Program[DataParallelSetup]):
    """Batch agreement of data-parallel ranks, one step after the other.

    A variant replaces the form or the step.
    """

    probes = ("dp.dummy_batch", "dp.microbatched", "dp.not_microbatched", "dp.padded_further", "dp.lower_mode")

    def prepare(self, args: Arguments) -> DataParallelSetup:
        config = EngineConfig.model_validate(args.config)
        topology = Topology.model_validate(args.topology)
        if config.num_gpu_blocks_override is not None:
            raise Unsuitable("config.num_gpu_blocks_override: dp_batch has no KV cache to be too small; remove it")
        timeline = Timeline(args.requests, topology.data_parallel_size, config, args.step_ns)
        pieces = with_variant(self, args, {BatchForm: FORMS[args.form], DataParallelStep: DataParallelStep})
        return DataParallelSetup(config, topology, timeline, pieces[BatchForm](), pieces[DataParallelStep])

    def steps(self, prepared: DataParallelSetup) -> int:
        return prepared.timeline.steps

    def figures(self, prepared: DataParallelSetup, journals: Sequence[Sequence[RawRecord]]) -> dict[str, Any]:
        """Tokens that requests needed against tokens that ranks ran (dummy batches and padding), and steps by mode.

        Taken from the decisions of rank 0: steps that were not agreed on do not count. A rank that runs fewer tokens
        than it has makes up for no other's padding.
        """
        modes: Counter[str] = Counter()
        real = run = dropped = microbatched = 0
        for raw in journals[0]:
            if raw[KIND] != "decision":
                continue
            if raw[SITE] == "plan":
                _, num_tokens, _ = raw[DECISION_VALUE]
                if num_tokens is not None:
                    scheduled = [batch.num_tokens for batch in prepared.timeline.batches(raw[STEP])]
                    run += sum(num_tokens)
                    real += sum(scheduled)
                    dropped += sum([max(own - count, 0) for own, count in zip(scheduled, num_tokens, strict=True)])
            elif raw[SITE] == "mode":
                mode, split = raw[DECISION_VALUE]
                modes[mode] += 1
                microbatched += split
        tokens: dict[str, Any] = {}
        if real:  # one rank agrees with nobody, and no count is decided
            tokens = {"tokens scheduled": real, "tokens run": run}
            if dropped:
                tokens["tokens dropped"] = dropped
            tokens["padded-token overhead"] = f"{100 * (run - real + dropped) / real:.1f} %"
        return {
            **tokens,
            "steps by graph mode": {mode.name: modes[mode.name] for mode in RuntimeMode},
            "microbatched steps": microbatched,
        }

    async def run(self, rank: Rank, prepared: DataParallelSetup) -> None:
        dp_index, _, _ = prepared.topology.coordinates(rank.rank)
        await prepared.step(rank, dp_index, prepared.config, prepared.form).run(prepared.timeline)
