"""The pieces of an engine step, and the published forms of each by name (specification 10.0).

    runner         the order of a step: v1 (10.2) or v2 (10.1)
    agreement      what data-parallel ranks send one another before a forward (chapter 1)
    graphs         which CUDA graph a batch runs in (chapter 5)
    microbatches   how a rank splits a batch, and how its parts run (chapters 3 and 4)
    experts        how experts move by their load (10.1, row 17)
    tokens         sampled tokens on their way back through a pipeline (chapter 6)
    transfer       hidden states on their way forward (chapter 7)
    finish_sync    when engines ask one another whether all are done (2.4)
    counts         the counts by which front ends balance: their own, or published ones (2.3)
    config         the release whose rules about parallelism hold (chapter 8)

    >>> FORMS["transfer"]
    ('source-002', '0.14', '0.33')

A form of an agreement, of graphs or of microbatches belongs to one runner. The V1 runner sends sizes of graphs and
dispatches twice; the V2 runner sends batches and looks a graph up. Forms of two runners have no common interface, so a
stack never combines them. The names and their meaning are in `dpsim.vllm.releases`.
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
    """The parts of the V1 runner's agreement. `make` constructs `flow` with `form` and `graphs`."""

    form: type[BatchForm]
    flow: type[BatchFlow]
    graphs: type[Dispatcher]

    def make(self, config: EngineConfig, tensor_parallel_size: int = 1) -> BatchFlow:
        """The decisions of a rank. Raises ValueError if no size of a graph is left."""
        return self.flow(config, self.form(), self.graphs, tensor_parallel_size)


class AgreementOfV2(NamedTuple):
    """The parts of the V2 runner's agreement."""

    agreement: type[AgreementV2]
    graphs: type[CandidateTable]

    def make(self, config: EngineConfig) -> AgreementV2:
        """The decisions of a rank, its graphs among them."""
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
"""The forms of each piece."""

OF_ONE_RUNNER = ("agreement", "graphs", "microbatches")
"""Pieces whose forms were each written for one runner."""
