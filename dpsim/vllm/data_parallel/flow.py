"""From a rank's batch to its column, and from the agreement to its graph: vLLM's V1 runner (1.6).

A rank dispatches alone, sends the result to the others, and after the agreement dispatches again. The second dispatch
takes the agreed count, and the agreement limits its modes. All of it is arithmetic on one rank, without a machine:

    >>> from dpsim.vllm.config import EngineConfig
    >>> from dpsim.vllm.data_parallel.batch import Source000
    >>> from dpsim.vllm.graphs.dispatcher import Dispatcher033
    >>> flow = Flow033(EngineConfig(cudagraph_capture_sizes=(1, 2, 4, 8)), Source000(), Dispatcher033)
    >>> mode, descriptor = flow.first_dispatch(Batch(((0, 3, 0),), 3, 3))
    >>> mode.name, descriptor.num_tokens
    ('PIECEWISE', 4)

All releases share `BatchFlow`. Each difference is a separate method, and a release is the class with its answers. Its
record (`dpsim.vllm.releases`) names the class beside its agreement and its dispatcher:

                 dummy batches                   first dispatch without FULL    may not be split
    0.14         one token, uniform by force     cascade attention, encoder     (the caller may say so)
    source-000   the same (0.17)                 the same                       the same
    0.33         q tokens, uniform by force      encoder                        readers of unwritten blocks (3.3)

Sources: specification chapters 1.6, 1.8, 3.3 and 10.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from dpsim.vllm.config import EngineConfig, RuntimeMode
from dpsim.vllm.data_parallel.batch import BatchForm, LocalBatch, StepPlan, told
from dpsim.vllm.data_parallel.one_graph import refuse_unequal_counts
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.graphs.dispatcher import ALL_MODES, Descriptor, Dispatcher


class BatchFlow(ABC):
    """One rank's way through a step's decisions. Methods in the order in which a step calls them.

    `tensor_parallel_size`: the ranks among which sequence parallelism cuts a batch. Counts are multiples of it, and
    graphs of other sizes do not exist.
    """

    def __init__(
        self,
        config: EngineConfig,
        form: BatchForm,
        graphs: type[Dispatcher],
        tensor_parallel_size: int = 1,
    ) -> None:
        self.config, self.form, self.graphs = config, form, graphs
        self.parts = tensor_parallel_size if config.enable_sp else 1
        self.dispatcher = self.graphs(config, self.sizes())

    def sizes(self) -> tuple[int, ...]:
        """The graph sizes, without mode NONE. Raises ValueError if there are none."""
        return tuple(size for size in self.graphs.ladder.sizes(self.config) if size % self.parts == 0)

    @property
    def q(self) -> int:
        """Tokens of a decode."""
        return self.config.uniform_decode_query_len

    # ---- differences of releases

    @abstractmethod
    def dummy_tokens(self) -> int:
        """Tokens of a dummy batch."""

    @abstractmethod
    def forbids_full(self, batch: Batch) -> bool:
        """Whether the first dispatch may not choose FULL (1.8). The agreed mode tells the second one."""

    @abstractmethod
    def may_split(self, batch: Batch) -> bool:
        """Whether this rank permits microbatches for the step. A rank that does not vetoes them for all (3.3)."""

    # ---- before the agreement

    def dummy_batch(self) -> Batch:
        """The batch of a rank without work: a uniform decode by force, so that a graph fits it (1.8, I-DP-12)."""
        tokens = self.dummy_tokens()
        return Batch((), tokens, tokens, is_dummy=True, forced_uniform=True)

    def uniform(self, batch: Batch) -> bool:
        return batch.uniform_decode(self.q)

    def padded(self, num_tokens: int) -> int:
        """Padding for sequence parallelism, into equal parts: before the first dispatch, and never after."""
        return -(-num_tokens // self.parts) * self.parts

    def first_dispatch(self, batch: Batch) -> tuple[RuntimeMode, Descriptor]:
        """The graph that this rank would run alone (1.6 b)."""
        allowed = ALL_MODES - {RuntimeMode.FULL} if self.forbids_full(batch) else ALL_MODES
        mode, descriptor = self.dispatch(batch, self.padded(batch.num_tokens), allowed)
        assert descriptor.num_tokens % self.parts == 0, (
            f"{descriptor.num_tokens} tokens cannot be cut into {self.parts} equal parts (sequence parallelism)"
        )
        return mode, descriptor

    def dispatch(
        self, batch: Batch, num_tokens: int, allowed: frozenset[RuntimeMode]
    ) -> tuple[RuntimeMode, Descriptor]:
        """Look `num_tokens` up among the graphs. A batch that has to run eagerly gets none, whatever the agreement."""
        if batch.force_eager:
            allowed = frozenset({RuntimeMode.NONE})
        return self.dispatcher.dispatch(num_tokens, self.uniform(batch), has_lora=batch.num_loras > 0, allowed=allowed)

    def local_batch(self, batch: Batch, mode: RuntimeMode, descriptor: Descriptor) -> LocalBatch:
        """This rank's column. A rank wants padding if graphs are configured at all (0.14)."""
        return told(
            batch.num_tokens,
            descriptor.num_tokens,
            self.may_split(batch),
            self.uniform(batch),
            self.wants_padding(),
            mode,
            self.config,
        )

    def wants_padding(self) -> bool:
        return self.config.cudagraph_mode != "NONE"

    # ---- after the agreement

    def second_dispatch(self, batch: Batch, agreed: int, plan: StepPlan) -> tuple[RuntimeMode, Descriptor]:
        """Dispatch again with the agreed count (1.6 d): it may change neither count nor mode (I-DP-9). Raises
        UnequalCounts for a plan that fits no graph on all ranks (I-DP-4).
        """
        refuse_unequal_counts(plan.num_tokens, plan.mode, plan.microbatched)
        return self.dispatch(batch, agreed, frozenset(self.form.allowed_modes(plan.mode)))

    # ---- without captures

    def rehearse(self, ranks: int) -> None:
        """Decide, for each mode that has graphs, on the columns that a capture session of `ranks` ranks sends (5.6).
        Raises OtherMode if no session could capture them.
        """
        for mode, keys in self.dispatcher.keys.items():
            if keys:
                tokens = min(key.num_tokens for key in keys)
                column = self.form.column(LocalBatch(tokens, tokens, False, self.wants_padding(), mode))
                table = np.array([column] * ranks, np.int32).T
                self.form.settled(table, self.form.decide(table, self.config))


class Flow017(BatchFlow):
    """0.17 (source 000): dummies of one token, and no FULL graph for cascade attention."""

    def dummy_tokens(self) -> int:
        return 1

    def forbids_full(self, batch: Batch) -> bool:
        return batch.cascade_attention or batch.encoder_reqs > 0

    def may_split(self, batch: Batch) -> bool:
        return batch.allow_microbatching


class Flow014(Flow017):
    """0.14: its agreement and its graphs differ from those of 0.17, and nothing else."""


class Flow033(BatchFlow):
    """0.33: dummies as long as a decode, and cascade attention in any graph. A rank vetoes a split if a request reads
    cache blocks that another one still writes.
    """

    def dummy_tokens(self) -> int:
        return self.q

    def forbids_full(self, batch: Batch) -> bool:
        return batch.encoder_reqs > 0

    def may_split(self, batch: Batch) -> bool:
        return batch.allow_microbatching and not batch.reads_unwritten
