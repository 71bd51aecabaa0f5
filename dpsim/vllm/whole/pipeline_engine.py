"""The scheduler of an engine with a pipeline, called step by step in the loop of a group (specification 7.5).

When `PipelineScheduler` schedules a batch, it also computes the results of the batch, because the tokens of the
stand-in model are known beforehand. The live scheduler keeps these results in a queue. It passes them on only when the
workers have computed the batch.
"""

from __future__ import annotations

from collections import deque

from dpsim.vllm.config import EngineConfig
from dpsim.vllm.engine.scheduler import Finished
from dpsim.vllm.engine.waves import PauseState
from dpsim.vllm.model.oracle import Oracle
from dpsim.vllm.params.arguments import Request
from dpsim.vllm.pipeline.batches import Batch
from dpsim.vllm.pipeline.scheduler import PipelineScheduler, RequestState, RowOutput
from dpsim.vllm.whole.batch_queue import LiveScheduler, Masks


class LivePipelineScheduler(LiveScheduler[Batch]):
    """The live scheduler of a pipeline. `of_stages`: the scheduler that chooses the batches."""

    def __init__(
        self, requests: tuple[Request, ...], stages: int, config: EngineConfig, scheduler: type[PipelineScheduler]
    ) -> None:
        super().__init__(requests, config.max_num_seqs)
        self.of_stages = scheduler(stages, config)
        self.results: deque[list[RowOutput]] = deque()

    @property
    def depth(self) -> int:
        return self.of_stages.depth()

    @property
    def num_waiting(self) -> int:
        return len(self.of_stages.waiting)

    @property
    def kv_cache_usage(self) -> float:
        return self.of_stages.kv_cache_usage

    def has_requests(self, pause: PauseState) -> bool:
        """Also True if only freed slots are left: the workers learn of them by a batch, which then has no tokens."""
        return self.has_unfinished(pause) or (pause is not PauseState.PAUSED_ALL and bool(self.of_stages.finished))

    def admit(self, number: int, request: Request) -> None:
        oracle = Oracle(number, request.prompt_tokens, request.structured_output)
        self.of_stages.add(RequestState(number, request, oracle, key=number, more=False))

    def drop(self, number: int) -> None:
        self.of_stages.abort(number)

    def next_batch(self, pause: PauseState) -> Batch:
        self.of_stages.admits = pause is PauseState.UNPAUSED
        batch, results = self.of_stages.schedule()
        self.results.append(results)
        return batch

    def defers(self) -> bool:
        return self.of_stages.defers(self.results[-1])

    def masks(self, batch: Batch) -> Masks:
        return self.of_stages.masks(batch, self.results[-1])

    def taken(self, batch: Batch) -> list[Finished]:
        results = self.results.popleft()
        self.of_stages.update_from_output(results)
        over = [state.number for state, _, _ in results if state.ended]
        return self.abort([f"r{number}" for number in over])
