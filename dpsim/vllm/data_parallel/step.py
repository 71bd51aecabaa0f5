"""One data-parallel step of the V1 runner: dispatch, agreement, forward, drafter (specification 1.6 and 10.2).

A rank dispatches by itself, that is, it chooses a CUDA graph for its batch. It agrees with the other ranks on mode and
counts. Then it dispatches again with the agreed count and mode, asserts that the count does not change, and runs the
forward. The stand-in for the model is one layer for each microbatch (`dpsim.vllm.data_parallel.forward`). Then the
drafter runs, and experts may move. A rank's rows have the tokens of its batch, then padding.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from dpsim.contract.interface import HostArray, Rank
from dpsim.vllm.data_parallel.batch import LocalBatch, StepPlan
from dpsim.vllm.data_parallel.captured import Agreed, CapturedForward
from dpsim.vllm.data_parallel.drafter import Drafter
from dpsim.vllm.data_parallel.expert_balance import ExpertBalance
from dpsim.vllm.data_parallel.flow import BatchFlow
from dpsim.vllm.data_parallel.forward import ATTENTION_NS, Execution, Forwards, Microbatch, fill_column
from dpsim.vllm.data_parallel.microbatch import slice_sizes
from dpsim.vllm.data_parallel.timeline import Batch, Batches
from dpsim.vllm.data_parallel.witness import Witness
from dpsim.vllm.model import rows

InFlight: TypeAlias = tuple[int, list[Microbatch], list[Microbatch]]
"""A step whose results the rank has not awaited yet: its number, its microbatches, and the drafter's forwards."""


class DataParallelStep(Forwards):
    """The steps of one rank, in the order of this file. `captured` None: the eager stand-in. `balance` None: experts
    stay.
    """

    def __init__(
        self,
        rank: Rank,
        dp_index: int,
        flow: BatchFlow,
        drafter: type[Drafter] = Drafter,
        captured: type[CapturedForward] | None = None,
        balance: type[ExpertBalance] | None = None,
    ) -> None:
        super().__init__(rank, flow)
        self.dp_index = dp_index
        self.captured = captured
        self.forward: CapturedForward | None = None
        self.in_flight: list[InFlight] = []
        self.drafter = drafter(self, flow) if self.config.has_drafter else None
        self.balance = balance(self) if balance is not None and self.config.enable_eplb else None

    async def run(self, timeline: Batches) -> None:
        """Run all steps of a workload, whose batches are known beforehand."""
        await self.begin(timeline)
        for step in range(timeline.steps):
            self.rank.step = step
            await self.step(timeline.batches(step)[self.dp_index])
        await self.end()

    async def begin(self, timeline: Batches) -> None:
        """Prepare the run, and capture the graphs if the configuration has captures."""
        self.witness = Witness(timeline, self.dp_index, shares=self.experts.size // self.host.size)
        if self.captured is not None:
            self.forward = self.captured(self.rank, self.flow, timeline)
            await self.forward.capture(self.agree_forward)

    async def end(self) -> None:
        """Await the steps in flight, and check the results of all steps."""
        while self.in_flight:
            await self.retire()
        self.witness.end()
        if self.balance is not None:
            await self.balance.end()
        if self.forward is not None:
            await self.forward.end(self.witness)

    async def step(self, batch: Batch) -> None:
        """Run one step. A rank without tokens takes part with a dummy batch (specification 1.8)."""
        if not batch.num_tokens:
            self.rank.probe("dp.dummy_batch")
        await self.execute(await self.coordinate(batch if batch.num_tokens else self.flow.dummy_batch()))

    # ---- coordination

    async def coordinate(self, batch: Batch) -> Execution:
        """Dispatch, agree with the other ranks, and dispatch again (specification 1.6).

        Returns how this rank runs the step. Raises AssertionError if the second dispatch changes the agreed count.
        """
        mode, descriptor = self.flow.first_dispatch(batch)
        plan, agreed = StepPlan(False, None, mode), descriptor.num_tokens
        if self.host.size > 1:
            local = self.flow.local_batch(batch, mode, descriptor)
            plan = await self.agree(local)
        self.rank.decide("plan", (plan.microbatched, plan.num_tokens, int(plan.mode)), "dp_cpu")
        if plan.num_tokens is not None:
            agreed = plan.num_tokens[self.host.index]
            self.probe(local, plan, agreed)
            mode, descriptor = self.flow.second_dispatch(batch, agreed, plan)
        self.rank.decide("mode", (mode.name, plan.microbatched), "dp_cpu")
        assert descriptor.num_tokens == agreed, (
            f"the second dispatch pads {agreed} agreed tokens to {descriptor.num_tokens} in mode {mode.name}"
        )
        return Execution(plan, mode, agreed, batch, descriptor)

    async def agree_forward(self, batch: Batch) -> Agreed:
        """Agree on a forward of the capture session, which belongs to no step of the scheduler."""
        plan, mode, num_tokens, _, key = await self.coordinate(batch)
        return Agreed(mode, key, plan.num_tokens or (num_tokens,), plan.microbatched)

    def probe(self, local: LocalBatch, plan: StepPlan, agreed: int) -> None:
        """Record as probes (marks in the trace, for tests) in which ways this rank followed the others."""
        if plan.microbatched:
            self.rank.probe("dp.microbatched")
        elif local.wants_microbatching:
            self.rank.probe("dp.not_microbatched")
        if agreed > local.num_tokens_padded:
            self.rank.probe("dp.padded_further")
        if plan.mode < local.mode:
            self.rank.probe("dp.lower_mode")

    async def agree(self, local: LocalBatch) -> StepPlan:
        """Make one agreement: send this rank's column, and decide from the columns of all ranks."""
        table = await self.gather(self.form.column(local))
        self.form.refuse(table, local)
        return self.form.settled(table, self.plan(table, local))

    async def gather(self, column: tuple[int, ...]) -> HostArray:
        """All columns, int32 (rows, ranks), by one SUM all-reduce over gloo or NCCL (specification 1.4)."""
        if self.syncs_on_host():
            table = np.zeros((len(column), self.host.size), np.int32)
            table[:, self.host.index] = column
            return await self.host.all_reduce(table, site="dp.agree")
        buffer = self.main.alloc((len(column), self.device.size), "int32", "dp.table")
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
        """Decide on the plan. A correct decision reads only the table, and not this rank's own batch `local`."""
        return self.form.decide(table, self.config)

    # ---- the stand-in for the model

    async def execute(self, execution: Execution) -> None:
        """Run the forward and the drafter. Then wait for the results of this step; with asynchronous scheduling, for
        those of the step before.

        Raises AssertionError if the token count of the forward is not the agreed one (invariant I-DP-6).
        """
        plan, batch, index = execution.plan, execution.batch, self.host.index
        counts = await self.open_forward(execution.num_tokens, plan.num_tokens)
        assert counts[index] == execution.num_tokens, (
            f"a forward of {execution.num_tokens} tokens, where {counts[index]} are agreed for this rank (I-DP-6)"
        )
        if self.forward is not None:
            parts = [await self.forward.run(batch, Agreed(execution.mode, execution.key, counts, plan.microbatched))]
        else:
            parts = self.launch_layers(execution, counts)
        drafts = await self.drafter.propose(batch) if self.drafter is not None else []
        self.in_flight.append((self.rank.step, parts, drafts))
        while len(self.in_flight) > self.config.async_scheduling:
            await self.retire()
        if self.balance is not None:
            await self.balance.after_step(batch)

    def launch_layers(self, execution: Execution, counts: tuple[int, ...]) -> list[Microbatch]:
        """Launch one layer for each microbatch."""
        batch, index = execution.batch, self.host.index
        if execution.plan.microbatched:
            cuts = list(zip(*(self.part_sizes(count, batch) for count in counts), strict=True))
        else:
            cuts = [counts]
        parts: list[Microbatch] = []
        start, real = 0, batch.num_tokens
        for number, sizes in enumerate(cuts):
            self.refuse_empty(number, start, real)
            stop = start + sizes[index]
            whole = not start and real <= stop
            pieces = batch.scheduled if whole else rows.cut(batch.scheduled, start, stop)
            parts.append(self.launch_layer(sum(sizes), sum(sizes[:index]), sizes[index], pieces))
            start = stop
        return parts

    def refuse_empty(self, number: int, start: int, real: int) -> None:
        """Raises AssertionError for a microbatch that starts behind the last real token (invariant I-DP-7)."""
        assert start < real, f"empty slice: microbatch {number} starts at token {start} of {real} real ones (I-DP-7)"

    def part_sizes(self, num_tokens: int, batch: Batch) -> tuple[int, ...]:
        """The tokens of each microbatch, for a rank that runs `num_tokens`. They do not depend on its batch."""
        return slice_sizes(num_tokens, self.config.num_ubatches)

    async def retire(self) -> None:
        """Wait for the oldest step in flight. The witness compares the rank's own rows with the tokens of its batch."""
        step, parts, drafts = self.in_flight.pop(0)
        own = [await self.layer_result(part) for part in parts]
        self.witness.check_step(step, own, self.rank.step)
        for part in drafts:
            await self.layer_result(part, "draft")
