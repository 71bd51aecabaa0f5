"""The pieces of an engine step, and the published forms of each by name (specification 10.0).

    runner         the order of a step: v1 (10.2) or v2 (10.1)
    agreement      what data-parallel ranks tell one another before a forward (chapter 1)
    graphs         which CUDA graph a batch runs in (chapter 5)
    microbatches   how a batch is cut, and how its parts run (chapters 3 and 4)
    experts        how experts move by their load (10.1, row 17)
    tokens         sampled tokens on their way back through a pipeline (chapter 6)
    transfer       hidden states on their way forward (chapter 7)
    finish_sync    when engines ask one another whether all are done (2.4)
    counts         by what front ends balance: what they sent themselves, or what engines publish (2.3)
    config         the release whose rules about parallelism hold (chapter 8)

    >>> FORMS["transfer"]
    ('source-002', '0.14', '0.33')

A form of an agreement, of graphs or of microbatches was written for one runner: the V1 runner tells sizes of graphs and
dispatches twice, the V2 runner tells batches and looks a graph up. `RUNNERS` says whose each is; those of two runners
have no common interface, so they are never put together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from dpsim.vllm.config import EngineConfig
from dpsim.vllm.data_parallel.batch import BatchForm
from dpsim.vllm.data_parallel.batch_v2 import AgreementV2
from dpsim.vllm.data_parallel.expert_balance import BALANCES, ExpertBalance
from dpsim.vllm.data_parallel.flow import RELEASES, BatchFlow
from dpsim.vllm.engine.request_counts import COUNTS
from dpsim.vllm.graphs.candidates import CandidateTable
from dpsim.vllm.graphs.dispatcher import Dispatcher
from dpsim.vllm.graphs.managed import V1_GRAPHS
from dpsim.vllm.overlap.forms import FORWARDS, ForwardV2
from dpsim.vllm.overlap.forward import OverlapForward
from dpsim.vllm.pipeline.page_002 import Page002Tokens
from dpsim.vllm.pipeline.sampled_tokens import SampledTokens
from dpsim.vllm.pipeline.transfer import TRANSFERS, Transfer


class FinishSync(NamedTuple):
    """`release`: of the engine loop. `interval`: steps from one sync to the next; `first_step`: the first one syncs,
    too; `pause_votes`: ranks tell whether they wait for a pause.
    """

    release: str
    interval: int
    first_step: bool
    pause_votes: bool


class AgreementV1(NamedTuple):
    """What the V1 runner agrees with. `flow` is made with `form`, and with `graphs` in place of its own; None: with
    its own.
    """

    form: type[BatchForm]
    flow: type[BatchFlow]
    graphs: type[Dispatcher] | None

    def make(self, config: EngineConfig, tensor_parallel_size: int = 1) -> BatchFlow:
        """The decisions of a rank. Raises ValueError if no size of a graph is left."""
        return self.flow(config, self.form(), tensor_parallel_size, self.graphs)


class AgreementOfV2(NamedTuple):
    """What the V2 runner agrees with."""

    agreement: type[AgreementV2]
    graphs: type[CandidateTable]

    def make(self, config: EngineConfig) -> AgreementV2:
        """The decisions of a rank, its graphs among them."""
        return self.agreement(config, self.graphs(config))


Agreement: TypeAlias = AgreementV1 | AgreementOfV2

V1_AGREEMENTS: Mapping[str, tuple[type[BatchForm], type[BatchFlow]]] = {
    "source-000": RELEASES["source-000"],
    "v1-0.14": RELEASES["0.14"],
    "v1-0.33": RELEASES["0.33"],
}
V2_AGREEMENTS: Mapping[str, type[AgreementV2]] = {"v2-0.33": AgreementV2}
V2_GRAPHS: Mapping[str, type[CandidateTable]] = {"v2-0.33": CandidateTable}
V1_MICROBATCHES: Mapping[str, type[OverlapForward]] = {
    "source-001": FORWARDS["source-000"],
    "v1-0.14": FORWARDS["0.14"],
    "v1-0.33": FORWARDS["0.33"],
}
V2_MICROBATCHES: Mapping[str, type[OverlapForward]] = {"v2-0.33": ForwardV2}
EXPERTS: Mapping[str, type[ExpertBalance]] = BALANCES
TOKENS: Mapping[str, type[SampledTokens]] = {
    "source-002": SampledTokens,  # with the corrected mask and width, as the specification wants it
    "page-002": Page002Tokens,
    "0.33": SampledTokens,
}
TRANSFER: Mapping[str, type[Transfer]] = TRANSFERS


def finish_sync(name: str, config: EngineConfig) -> FinishSync:
    """That of a release. Before 0.33 nobody could set the interval."""
    if name == "0.33":
        return FinishSync(name, config.dp_sync_interval, first_step=True, pause_votes=True)
    return FinishSync(name, 32, first_step=False, pause_votes=name == "0.24")


FORMS: Mapping[str, tuple[str, ...]] = {
    "runner": ("v1", "v2"),
    "agreement": (*V1_AGREEMENTS, *V2_AGREEMENTS),
    "graphs": (*V1_GRAPHS, *V2_GRAPHS),
    "microbatches": (*V1_MICROBATCHES, *V2_MICROBATCHES),
    "experts": tuple(EXPERTS),
    "tokens": tuple(TOKENS),
    "transfer": tuple(TRANSFER),
    "finish_sync": ("source-003", "0.24", "0.33"),
    "counts": COUNTS,
    "config": ("source-003", "0.33"),
}
"""Of each piece its forms."""

RUNNERS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "v1": {"agreement": tuple(V1_AGREEMENTS), "graphs": tuple(V1_GRAPHS), "microbatches": tuple(V1_MICROBATCHES)},
    "v2": {"agreement": tuple(V2_AGREEMENTS), "graphs": tuple(V2_GRAPHS), "microbatches": tuple(V2_MICROBATCHES)},
}
"""The forms that were written for a runner."""
