"""The drafter of a data-parallel step in the V1 runner. It has its own layers, experts and agreements.

A drafter proposes tokens for speculative decoding. A rank runs it over the tokens of the step, and once for each
further token. Every rank takes part in each agreement (invariant I-DP-2). The drafter's experts are spread over the
same ranks, so all ranks have to run it equally often.

The ranks also agree on the tokens that each rank runs in the drafter (specification 10.2 and 10.3; V1, every release).
They agree once before the first forward. If there are more forwards, they agree once more, on one token for each
request. A rank without requests runs the drafter on a *dummy* of one token. So does a rank that has a sequence too long
for the drafter.

    num_speculative_tokens   agreements   forwards
    1                        1            1
    3                        2            1 + 2

A drafter uses no FULL graphs, and never splits a step. The model has no cache of proposed tokens. The rows of a
drafter's forward hold the values of its input tokens, and the ranks compare the sums of the rows.
"""

from __future__ import annotations

from dpsim.vllm.config import CUDAGraphMode, EngineConfig, RuntimeMode
from dpsim.vllm.data_parallel.batch import batch_to_send
from dpsim.vllm.data_parallel.flow import BatchFlow
from dpsim.vllm.data_parallel.forward import Forwards, Microbatch
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.model.rows import Piece

DUMMY = Batch((), 1, 1, is_dummy=True)


class Drafter:
    """The drafter of one rank. A step calls its methods in the order of this file."""

    def __init__(self, step: Forwards, flow: BatchFlow) -> None:
        self.step, self.config, self.form = step, flow.config, flow.form
        self.dispatcher = flow.graphs(graphs_of(flow.config), flow.sizes())

    async def propose(self, batch: Batch) -> list[Microbatch]:
        """Launch all forwards of a step's drafter. The caller reads their rows later."""
        given = batch if self.fits(batch) else DUMMY
        forwards = await self.phase(given.num_tokens, given.scheduled, times=1)
        further = self.config.num_speculative_tokens - 1
        if further:
            pieces = tuple([(request, 1, position + tokens) for request, tokens, position in given.scheduled])
            forwards += await self.phase(given.num_reqs or given.num_tokens, pieces, times=further)
        return forwards

    def fits(self, batch: Batch) -> bool:
        """Whether the drafter has room for the longest sequence and its drafts; always without requests."""
        most, drafts = self.config.speculative_max_model_len, self.config.num_speculative_tokens
        longest = max([position + tokens for _, tokens, position in batch.scheduled], default=0)
        return most is None or longest + drafts <= most

    async def phase(self, num_tokens: int, pieces: tuple[Piece, ...], times: int) -> list[Microbatch]:
        """Agree once, then launch `times` forwards."""
        counts = await self.step.open_forward(num_tokens, await self.agree(num_tokens))
        index = self.step.host.index
        return [
            self.step.launch_layer(sum(counts), sum(counts[:index]), counts[index], pieces, "draft")
            for _ in range(times)
        ]

    async def agree(self, num_tokens: int) -> tuple[int, ...] | None:
        """The agreed tokens of each rank. A single rank gets None, and its forward runs `num_tokens`."""
        mode, descriptor = self.dispatcher.dispatch(num_tokens, False)
        if self.step.host.size == 1:
            return None
        wants_padding = self.step.flow.wants_padding()
        local = batch_to_send(num_tokens, descriptor.num_tokens, False, None, wants_padding, mode, self.config)
        plan = await self.step.agree(local)
        self.step.rank.decide("draft.plan", (plan.num_tokens, int(plan.mode)), "dp_cpu")
        return plan.num_tokens


def graphs_of(config: EngineConfig) -> EngineConfig:
    """A drafter's graphs: PIECEWISE if the target model has graphs for mixed batches, else none."""
    mode = CUDAGraphMode.NONE if config.cudagraph_mode.mixed_mode is RuntimeMode.NONE else CUDAGraphMode.PIECEWISE
    return config.model_copy(update={"cudagraph_mode": mode, "enable_lora": False})
