"""A worker of an engine with a pipeline: one rank of one stage, which runs the engine's calls (specification 7.3 and
10.1).

The step of this worker is that of `dpsim.vllm.pipeline.stage`, with two differences. First, batches arrive as calls, so
no worker can compute them beforehand. Second, the replicas (data-parallel engines) agree on graph and sizes before each
forward (`dpsim.vllm.whole.stage_agreement`). A worker agrees after it has updated its request state, and before it
prepares the inputs (invariant I-ES-3). The collectives of the experts have the agreed number of rows (invariant
I-ES-4).

A dummy makes the agreement and the collective of the experts. It changes no request and involves no other stage, and
the engine takes no result of it (invariant I-ES-7).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from dpsim.contract.interface import Rank
from dpsim.vllm.config import EngineConfig, RuntimeMode
from dpsim.vllm.engine.forward import RPC
from dpsim.vllm.engine.layout import Layout
from dpsim.vllm.graphs.capture import CaptureSize
from dpsim.vllm.graphs.manager import GraphManager
from dpsim.vllm.model.kernels import fill
from dpsim.vllm.pipeline.batches import Batch
from dpsim.vllm.pipeline.graphs import CapturedLayers
from dpsim.vllm.pipeline.history import History
from dpsim.vllm.pipeline.layers import Layers
from dpsim.vllm.pipeline.sampled_tokens import SampledTokens
from dpsim.vllm.pipeline.scheduler import PipelineScheduler
from dpsim.vllm.pipeline.stage import Stage
from dpsim.vllm.pipeline.transfer import Transfer
from dpsim.vllm.whole.calls import ANSWERS, batch_of
from dpsim.vllm.whole.stage_agreement import Ran, StageAgreement, Tokens, table_of


class Workload(History):
    """The requests before any of them arrives: their oracles, and the buffer sizes that they need. It has no calls."""

    def _play(self, scheduler: PipelineScheduler, step_ns: int, order: Sequence[int]) -> None:
        """Does nothing, because the engine makes its calls during the run."""

    @property
    def ends(self) -> dict[int, tuple[int, bool]]:
        """Empty, because a worker does not know which engine gets a request, or when the request ends."""
        return {}

    @property
    def largest(self) -> int:
        """The tokens of all requests with their drafts, within the token budget: an upper bound."""
        q = self.config.uniform_decode_query_len
        tokens = sum([one.prompt_tokens + one.output_tokens + q for one in self.requests])
        return max(min(tokens, self.config.max_num_batched_tokens), q)


class AgreedGraphs(GraphManager):
    """The graphs of agreed batches. `agreed`: the agreement of the current step."""

    wanted: tuple[CaptureSize, ...]

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config, [one.num_tokens for one in self.wanted])
        self.agreed: Ran | None = None

    def captures(self) -> list[CaptureSize]:
        return list(self.wanted)

    def runtime_mode(self, num_reqs: int, num_tokens: int, max_query_len: int) -> tuple[RuntimeMode, int | None]:
        assert self.agreed is not None, "a forward without an agreement"
        return self.agreed.mode, self.agreed.num_tokens


def captured_by(agreement: StageAgreement) -> type[Layers]:
    """The class of layers with the graphs of an agreement."""
    manager = type("Agreed", (AgreedGraphs,), {"wanted": tuple(agreement.captures())})
    return type("AgreedLayers", (CapturedLayers,), {"manager": manager})


class StageWorker(Stage):
    """One rank. `core`: its engine's. `answers`: it is the output rank. `idle`: it may wait without end."""

    idle: ClassVar[bool] = True

    def __init__(
        self,
        rank: Rank,
        workload: Workload,
        tokens: type[SampledTokens],
        transfer: type[Transfer],
        tensor_parallel_size: int,
        layers: type[Layers],
        agreement: StageAgreement,
        layout: Layout,
        core: int,
        answers: bool,
    ) -> None:
        super().__init__(rank, workload, tokens, transfer, tensor_parallel_size, layers)
        self.agreement, self.layout, self.core, self.answers = agreement, layout, core, answers
        self.shared = tensor_parallel_size > 1  # whether its stage has other ranks
        self.peers = rank.host("dp_cpu")
        self.counts: tuple[int, ...] = ()
        self.skip_drafts: bool | None = None  # of the last agreement
        self.weights = self.main.alloc(1, "int32", "weights.version")
        self.main.launch("weights.load", fill, writes=[self.weights], args=(0,), cost=0)

    # ---- calls

    async def run(self) -> None:
        """Capture graphs, run all calls, and check the end."""
        await self.model.capture(("ep", "pp"))
        calls = self.rank.mailbox(RPC)
        while await self.do(await calls.get("worker.call", idle=self.idle)):
            pass
        await self.drain()

    async def do(self, call: Any) -> bool:
        """Run one call. Returns whether another one follows. Raises TypeError for an unknown call."""
        what, self.rank.step, *arguments = call
        match what:
            case "execute":
                await self.execute_alone(batch_of(arguments[0]))
            case "sample":
                self.results.append(self.sample_tokens(arguments[0]))
            case "take":
                await self.take_number(arguments[0])
            case "dummy":
                await self.dummy()
            case "synchronize":
                await self.main.record().synchronize("worker.synchronize")
            case "update_weights":
                await self.update_weights(arguments[0])
            case "stop":
                return False
            case _:
                raise TypeError(f"rank {self.rank.rank} knows no call {what!r}")
        if what not in ("execute", "sample") and (self.answers or what in ("synchronize", "update_weights")):
            self.rank.send(self.core, ANSWERS, (what, self.rank.rank), f"worker.{what}")
        return True

    async def execute_alone(self, batch: Batch) -> None:
        """Execute a batch. Another call samples it. A batch without tokens has its result at once."""
        self.witness.scheduled(batch)
        answer = await self.execute(batch)
        if answer is not None:
            self.results.append(answer)

    async def take_number(self, number: int) -> None:
        """Take the result of the oldest batch. Raises AssertionError if it is not that of batch `number`."""
        result = self.next_result()
        assert result is not None, f"batch {number} has no result: when it was to be sampled, none was executed"
        assert result.batch.number == number, f"the call is for batch {number}, and {result.batch.number} is the oldest"
        await self.take(result)

    async def update_weights(self, version: int) -> None:
        """Broadcast new weights from the first replica to the same rank of the others, on a separate stream."""
        stream, group = self.rank.stream("weights"), self.rank.device("dp")
        if group.index == 0:
            stream.launch("weights.write", fill, writes=[self.weights], args=(version,), cost=0)
        group.broadcast(self.weights, group.ranks[0], stream, site="weights.broadcast")
        await stream.record().synchronize("weights.synchronize")

    def delivered_tokens(self, batch: Batch) -> Sequence[int]:
        """Zeros, because the engine itself sends tokens to clients."""
        return (0,) * len(batch.rows)

    # ---- a step

    async def agree(self, batch: Batch) -> None:
        await self.agree_on([row.scheduled for row in batch.rows], batch.drafts == 0)

    async def agree_on(self, tokens: Tokens, may_skip_drafts: bool = True) -> None:
        """Agree once for each forward, even for a dummy (invariant I-ES-2). A dummy needs no drafts."""
        index, size = self.peers.index, self.peers.size
        table = table_of(self.agreement.column(tokens, may_skip_drafts), index, size)
        if size > 1:
            table = await self.agreement.reduced(self.peers, table)
        ran = self.agreement.decide(table, tokens, index)
        self.rank.decide("counts", ran.counts, "dp_cpu")
        self.rank.decide("mode", ran.mode.name, "dp_cpu")
        self.counts, self.skip_drafts = ran.counts, ran.skip_drafts
        if isinstance(self.model, CapturedLayers) and isinstance(self.model.graphs, AgreedGraphs):
            self.model.graphs.agreed = ran

    def skips_drafts(self, batch: Batch) -> bool:
        """Whether this step proposes no drafts: by the vote of this stage's replicas (specification 6.5).

        In a runner without this vote, the worker decides by its own batch.
        """
        return super().skips_drafts(batch) if self.skip_drafts is None else self.skip_drafts

    async def dummy(self) -> None:
        self.rank.probe("pp.dummy_step")
        await self.agree_on(self.agreement.dummy())
        self.run_experts(0)
        self.executed = None if self.is_last else self.dummy_record()

    def run_experts(self, tokens: int) -> None:
        """Reduce the agreed number of rows. A real row has the rank's number plus the version of its weights."""
        own = sum(self.counts[: self.peers.index])
        rows = self.main.alloc(sum(self.counts), "int32", "experts.rows")
        args = own, own + tokens, self.peers.index + 1
        self.main.launch("experts.write", put_rows, reads=[self.weights], writes=[rows], args=args)
        self.experts.all_reduce(rows, self.main, site="experts.combine")
        rows.free()


def put_rows(weights: Any, rows: Any, start: int, stop: int, value: int) -> None:
    """Kernel: write this rank's rows, and zero into all others."""
    rows[:] = 0
    rows[start:stop] = value + weights
