"""The drafter of a data-parallel step: it has layers, experts and agreements apart from those of the target model.

After the target model a rank runs the drafter: once over the step's tokens, and once for each further token that it
speculates. The drafter's experts are spread over the same ranks, so all ranks run it equally often. They also agree on
the tokens that each runs (10.2 and 10.3; V1, every release). They do so before the first forward and, on one token a
request, before all others. So a step has up to three agreements, and every rank takes part in each of them (I-DP-2). A
rank without work runs a *dummy*, and so does one whose sequence is too long for the drafter.
    num_speculative_tokens   agreements   forwards
    1                        1            1
    3                        2            1 + 2

A drafter has PIECEWISE graphs at most, and never splits a step. No cache here holds what it proposes: its rows are
those of its input tokens, and ranks compare their sums.
"""

from __future__ import annotations

from dpsim.vllm.config import CUDAGraphMode, EngineConfig, RuntimeMode
from dpsim.vllm.data_parallel.batch import told
from dpsim.vllm.data_parallel.flow import BatchFlow
from dpsim.vllm.data_parallel.forward import Forwards, Microbatch
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.model.rows import Piece

DUMMY = Batch((), 1, 1, is_dummy=True)


class Drafter:
    """The drafter of one rank. Methods in the order in which a step calls them."""

    def __init__(self, step: Forwards, flow: BatchFlow) -> None:
        self.step, self.config, self.form = step, flow.config, flow.form
        self.dispatcher = flow.graphs(graphs_of(flow.config), flow.sizes())

    async def propose(self, batch: Batch) -> list[Microbatch]:
        """Launch all forwards after a step of the target. The caller still has to read their rows."""
        given = batch if self.fits(batch) else DUMMY
        forwards = await self.phase(given.num_tokens, given.scheduled, times=1)
        further = self.config.num_speculative_tokens - 1
        if further:
            pieces = tuple([(request, 1, position + tokens) for request, tokens, position in given.scheduled])
            forwards += await self.phase(given.num_reqs or given.num_tokens, pieces, times=further)
        return forwards

    def fits(self, batch: Batch) -> bool:
        """Whether the drafter can go on from the longest sequence. A batch without requests always fits."""
        most, drafts = self.config.speculative_max_model_len, self.config.num_speculative_tokens
        longest = max([position + tokens for _, tokens, position in batch.scheduled], default=0)
        return most is None or longest + drafts <= most

    async def phase(self, num_tokens: int, pieces: tuple[Piece, ...], times: int) -> list[Microbatch]:
        """Agree once, and launch this number of forwards."""
        counts = await self.step.open_forward(num_tokens, await self.agree(num_tokens))
        index = self.step.host.index
        return [
            self.step.launch_layer(sum(counts), sum(counts[:index]), counts[index], pieces, "draft")
            for _ in range(times)
        ]

    async def agree(self, num_tokens: int) -> tuple[int, ...] | None:
        """Tokens that each rank runs. None for a single rank: each forward then has its own number."""
        mode, descriptor = self.dispatcher.dispatch(num_tokens, False)
        if self.step.host.size == 1:
            return None
        wants_padding = self.step.flow.wants_padding()
        local = told(num_tokens, descriptor.num_tokens, False, None, wants_padding, mode, self.config)
        plan = await self.step.agree(local)
        self.step.rank.decide("draft.plan", (plan.num_tokens, int(plan.mode)), "dp_cpu")
        return plan.num_tokens


def graphs_of(config: EngineConfig) -> EngineConfig:
    """The graphs of a drafter: PIECEWISE if batches that are not decodes have any."""
    mode = CUDAGraphMode.NONE if config.cudagraph_mode.mixed_mode is RuntimeMode.NONE else CUDAGraphMode.PIECEWISE
    return config.model_copy(update={"cudagraph_mode": mode, "enable_lora": False})
