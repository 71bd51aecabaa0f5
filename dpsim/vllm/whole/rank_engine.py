"""An engine whose core is its only worker: no tensor parallelism and no pipeline (specification chapters 1 and 2).

The worker runs the data-parallel step of the V1 runner: dispatch, agreement, second dispatch, forward. A dummy batch
takes the same path, so all engines of a group agree equally often (invariant I-ES-2). The engine also waits for the
result of a dummy, because the witness compares its rows, too.
"""

from __future__ import annotations

from collections import deque

from dpsim.contract.interface import Rank
from dpsim.vllm.config import EngineConfig
from dpsim.vllm.data_parallel.live import OwnBatches
from dpsim.vllm.data_parallel.step import DataParallelStep
from dpsim.vllm.data_parallel.timeline import IDLE, Batch, RankScheduler
from dpsim.vllm.engine.forward import DUMMY, REAL
from dpsim.vllm.engine.scheduler import Finished
from dpsim.vllm.engine.waves import PauseState
from dpsim.vllm.params.arguments import Request
from dpsim.vllm.whole.batch_queue import BatchExecutor, LiveScheduler


class LiveRankScheduler(LiveScheduler[Batch]):
    """The live scheduler of a rank. `RankScheduler` ends requests when it schedules their last batch; this class passes
    the ends on with the result of that batch.
    """

    def __init__(self, requests: tuple[Request, ...], config: EngineConfig) -> None:
        super().__init__(requests, config.max_num_seqs)
        self.of_rank = RankScheduler(config)
        self.ending: deque[list[int]] = deque()
        """For each batch in flight, the requests that end with it."""

    @property
    def num_waiting(self) -> int:
        return len(self.of_rank.waiting)

    def admit(self, number: int, request: Request) -> None:
        self.of_rank.add(number, request)

    def drop(self, number: int) -> None:
        self.of_rank.abort(number)

    def next_batch(self, pause: PauseState) -> Batch:
        self.of_rank.admits = pause is PauseState.UNPAUSED
        batch = self.of_rank.step() if self.of_rank.has_work else IDLE
        running = {item.index for item in self.of_rank.running}
        self.ending.append([request for request, _, _ in batch.scheduled if request not in running])
        return batch

    def taken(self, batch: Batch) -> list[Finished]:
        return self.abort([f"r{number}" for number in self.ending.popleft()])


class RankWorker(BatchExecutor[Batch]):
    """The worker. `batches`: the scheduled batches, with which the witness compares."""

    def __init__(self, rank: Rank, step: DataParallelStep, batches: OwnBatches) -> None:
        super().__init__(rank)
        self.step, self.batches = step, batches
        self.submitted: deque[int] = deque()

    async def begin(self) -> None:
        await self.step.begin(self.batches)

    async def submit(self, batch: Batch) -> None:
        if batch.num_tokens:
            self.rank.probe(REAL)
            self.batches.note(self.rank.step, batch)
            self.submitted.append(self.rank.step)
            await self.step.step(batch)

    async def result(self, batch: Batch) -> None:
        if batch.num_tokens:
            submitted, under_way = self.submitted.popleft(), self.step.in_flight
            while under_way and under_way[0][0] <= submitted:
                await self.step.retire()

    async def dummy(self) -> None:
        self.rank.probe(DUMMY)
        await self.step.step(IDLE)

    async def end(self) -> None:
        await self.step.end()
