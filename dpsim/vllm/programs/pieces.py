"""The pieces of an engine step, and the names of the published forms of each piece (specification 10.0).

A piece is a part of the model, such as the transfer of hidden states. A form is one published version of a piece.

    runner         the order of a step: v1 (10.2) or v2 (10.1)
    agreement      the batch agreement of data-parallel ranks before a forward (chapter 1)
    graphs         the choice of the CUDA graph that runs a batch (chapter 5)
    microbatches   the split of a batch, and the forward of its microbatches (chapters 3 and 4)
    experts        the moves of experts according to their load (10.1, row 17)
    tokens         the broadcast of sampled tokens to earlier pipeline stages (chapter 6)
    transfer       the transfer of hidden states to the next pipeline stage (chapter 7)
    finish_sync    the all-reduce by which engines learn whether any has work (2.4)
    counts         the counts by which front ends balance: their own, or published ones (2.3)
    config         the release whose rules about parallelism apply (chapter 8)

    >>> FORMS["transfer"]
    ('source-002', '0.14', '0.33')

A form of an agreement, of graphs or of microbatches belongs to one of vLLM's two model runners. Forms of two runners
have no common interface, so a stack never combines them. `dpsim.vllm.releases` explains the names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from dpsim.vllm.config import EngineConfig
from dpsim.vllm.data_parallel.batch import BatchForm
from dpsim.vllm.data_parallel.batch_v2 import AgreementV2
from dpsim.vllm.data_parallel.flow import BatchFlow
from dpsim.vllm.engine.request_counts import COUNTS
from dpsim.vllm.graphs.candidates import CandidateTable
from dpsim.vllm.graphs.dispatcher import Dispatcher
from dpsim.vllm.releases import Choices, names


class AgreementV1(NamedTuple):
    """The classes of the V1 runner's agreement. `make` constructs `flow` with `form` and `graphs`."""

    form: type[BatchForm]
    flow: type[BatchFlow]
    graphs: type[Dispatcher]

    def make(self, config: EngineConfig, tensor_parallel_size: int = 1) -> BatchFlow:
        """Returns the decisions of a rank. Raises ValueError if the configuration leaves no graph size."""
        return self.flow(config, self.form(), self.graphs, tensor_parallel_size)


class AgreementOfV2(NamedTuple):
    """The classes of the V2 runner's agreement."""

    agreement: type[AgreementV2]
    graphs: type[CandidateTable]

    def make(self, config: EngineConfig) -> AgreementV2:
        """Returns the decisions of a rank, with its graphs."""
        return self.agreement(config, self.graphs(config))


Agreement: TypeAlias = AgreementV1 | AgreementOfV2


FORMS: Mapping[str, tuple[str, ...]] = Choices(
    runner=lambda: ("v1", "v2"),
    agreement=lambda: names("agreement"),
    graphs=lambda: names("graphs"),
    microbatches=lambda: names("microbatches"),
    experts=lambda: names("experts"),
    tokens=lambda: names("tokens"),
    transfer=lambda: names("transfer"),
    finish_sync=lambda: names("finish_sync"),
    counts=lambda: COUNTS,
    config=lambda: names("config"),
)
"""The names of the forms of each piece."""

OF_ONE_RUNNER = ("agreement", "graphs", "microbatches")
"""The pieces each of whose forms belongs to one runner."""
