"""The batches of one rank whose requests arrive as messages during the run.

If requests arrive as messages, no rank can compute its batches beforehand. So the scheduler of a rank records each
batch before the step runs, and the witness compares the results with it. The other ranks count as idle:

    >>> own = OwnBatches([Request(0, 5, 2)], dp_index=1, ranks=2, config=EngineConfig())
    >>> own.note(3, Batch(((0, 5, 0),), 5, 5))
    >>> own.steps, [batch.num_tokens for batch in own.batches(3)], own.batches(2)[1] == IDLE
    (4, [0, 5], True)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpsim.vllm.config import EngineConfig
from dpsim.vllm.data_parallel.timeline import IDLE, Batch, Batches
from dpsim.vllm.params.arguments import Request


class OwnBatches(Batches):
    """The batches of one rank. `requests`: all requests that may arrive. `dp_index`: the rank's place in its group."""

    def __init__(self, requests: Sequence[Request], dp_index: int, ranks: int, config: EngineConfig) -> None:
        self.requests, self.dp_index, self.ranks, self.config = requests, dp_index, ranks, config
        self._own: dict[int, Batch] = {}
        self._seen: set[int] = set()
        self._begins: dict[int, int] = {}

    def note(self, step: int, batch: Batch) -> None:
        """Record the batch that the scheduler chose for a step, before the step runs."""
        self._own[step] = batch
        for request, _, first in batch.scheduled:
            if request not in self._seen and first:
                self._begins[request] = first
            self._seen.add(request)

    @property
    def steps(self) -> int:
        return max(self._own, default=-1) + 1

    def batches(self, step: int) -> tuple[Batch, ...]:
        own = self._own.get(step, IDLE)
        return tuple(own if rank == self.dp_index else IDLE for rank in range(self.ranks))

    def extent(self) -> tuple[int, int, int]:
        """Upper bounds, if all requests run on this rank. A decode has one token, and one more for each draft."""
        q = self.config.uniform_decode_query_len
        positions = max([one.prompt_tokens + one.output_tokens for one in self.requests], default=0) + q
        tokens = sum([max(one.prompt_tokens, q) for one in self.requests])
        return max(len(self.requests), 1), positions, max(min(tokens, self.config.max_num_batched_tokens), 1)

    def cached_prefixes(self) -> Mapping[int, int]:
        """The cached prefixes of the requests scheduled so far. The mapping grows while the rank runs."""
        return self._begins
