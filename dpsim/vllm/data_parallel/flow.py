"""What a rank of the V1 runner decides by itself, before and after the batch agreement (specification 1.6).

A rank chooses a CUDA graph for its batch, and sends its mode and size. After the agreement, it dispatches again with
the agreed token count, and may choose only modes that the agreement allows. Both decisions are arithmetic on one rank:

    >>> from dpsim.vllm.config import EngineConfig
    >>> from dpsim.vllm.data_parallel.batch import Source000
    >>> from dpsim.vllm.graphs.dispatcher import Dispatcher033
    >>> flow = Flow033(EngineConfig(cudagraph_capture_sizes=(1, 2, 4, 8)), Source000(), Dispatcher033)
    >>> mode, descriptor = flow.first_dispatch(Batch(((0, 3, 0),), 3, 3))
    >>> mode.name, descriptor.num_tokens
    ('PIECEWISE', 4)

                 dummy batches                   first dispatch without FULL    batches that are not split
    0.14         one token, uniform by force     cascade attention, encoder     those that the caller names
    source-000   as in 0.14                      as in 0.14                     as in 0.14
    0.33         q tokens, uniform by force      encoder                        also readers of unwritten blocks

In the table, q is the number of tokens of a decode. "Uniform by force" means that the rank reports a batch of decodes,
whatever the batch contains.

Sources: specification 1.6, 1.8, 3.3 and 10.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from dpsim.vllm.config import EngineConfig, RuntimeMode
from dpsim.vllm.data_parallel.batch import BatchForm, LocalBatch, StepPlan, batch_to_send
from dpsim.vllm.data_parallel.one_graph import refuse_unequal_counts
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.graphs.dispatcher import ALL_MODES, Descriptor, Dispatcher


class BatchFlow(ABC):
    """The decisions of one rank in a step. A step calls the methods in the order of this file.

    `form`: the agreement of the release. `graphs`: the class of its dispatcher. `tensor_parallel_size`: the number of
    ranks among which sequence parallelism cuts a batch. Token counts are then multiples of this number, and the
    dispatcher has no other graph sizes.
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
        """The sizes that sequence parallelism can cut equally; none in mode NONE. ValueError as `Ladder.sizes`."""
        return tuple(size for size in self.graphs.ladder.sizes(self.config) if size % self.parts == 0)

    @property
    def q(self) -> int:
        """The tokens of one decode: the sampled token and its drafts."""
        return self.config.uniform_decode_query_len

    # ---- differences of releases

    @abstractmethod
    def dummy_tokens(self) -> int:
        """The number of tokens of a dummy batch."""

    @abstractmethod
    def forbids_full(self, batch: Batch) -> bool:
        """Whether the first dispatch may not choose FULL (specification 1.8). The agreement limits the second."""

    @abstractmethod
    def may_split(self, batch: Batch) -> bool:
        """Whether this rank permits microbatches. If one does not, no rank splits (specification 3.3)."""

    # ---- before the agreement

    def dummy_batch(self) -> Batch:
        """The batch of a rank without work. It counts as a uniform decode, so a graph fits it (specification 1.8,
        invariant I-DP-12).
        """
        tokens = self.dummy_tokens()
        return Batch((), tokens, tokens, is_dummy=True, forced_uniform=True)

    def uniform(self, batch: Batch) -> bool:
        return batch.uniform_decode(self.q)

    def padded(self, num_tokens: int) -> int:
        """Rounds tokens up for sequence parallelism, so that its ranks get equal parts. Only the first dispatch calls
        it.
        """
        return -(-num_tokens // self.parts) * self.parts

    def first_dispatch(self, batch: Batch) -> tuple[RuntimeMode, Descriptor]:
        """The mode and graph that this rank would run by itself (specification 1.6 b).

        Raises AssertionError if sequence parallelism cannot cut the graph into equal parts.
        """
        allowed = ALL_MODES - {RuntimeMode.FULL} if self.forbids_full(batch) else ALL_MODES
        mode, descriptor = self.dispatch(batch, self.padded(batch.num_tokens), allowed)
        assert descriptor.num_tokens % self.parts == 0, (
            f"{descriptor.num_tokens} tokens cannot be cut into {self.parts} equal parts (sequence parallelism)"
        )
        return mode, descriptor

    def dispatch(
        self, batch: Batch, num_tokens: int, allowed: frozenset[RuntimeMode]
    ) -> tuple[RuntimeMode, Descriptor]:
        """Looks up a graph for `num_tokens`. A batch that has to run eagerly runs without a graph, whatever the ranks
        agreed on.
        """
        if batch.force_eager:
            allowed = frozenset({RuntimeMode.NONE})
        return self.dispatcher.dispatch(num_tokens, self.uniform(batch), has_lora=batch.num_loras > 0, allowed=allowed)

    def local_batch(self, batch: Batch, mode: RuntimeMode, descriptor: Descriptor) -> LocalBatch:
        """What this rank sends. In 0.14 a rank wants padding if the configuration has graphs."""
        return batch_to_send(
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
        """Dispatches again with the agreed count. It may change neither count nor mode (specification 1.6 d,
        invariant I-DP-9).

        Raises UnequalCounts if the ranks cannot run the plan in one graph (invariant I-DP-4).
        """
        refuse_unequal_counts(plan.num_tokens, plan.mode, plan.microbatched)
        return self.dispatch(batch, agreed, frozenset(self.form.allowed_modes(plan.mode)))

    # ---- without captures

    def rehearse(self, ranks: int) -> None:
        """Checks in a run without captures whether `ranks` ranks could capture their graphs (specification 5.6).

        For each mode that has graphs, the method decides on the columns that a capture session would send. Raises
        OtherMode if the decision is another mode.
        """
        for mode, keys in self.dispatcher.keys.items():
            if keys:
                tokens = min(key.num_tokens for key in keys)
                column = self.form.column(LocalBatch(tokens, tokens, False, self.wants_padding(), mode))
                table = np.array([column] * ranks, np.int32).T
                self.form.settled(table, self.form.decide(table, self.config))


class Flow017(BatchFlow):
    """Release 0.17 and source page 000: a dummy has one token, and cascade attention uses no FULL graph."""

    def dummy_tokens(self) -> int:
        return 1

    def forbids_full(self, batch: Batch) -> bool:
        return batch.cascade_attention or batch.encoder_reqs > 0

    def may_split(self, batch: Batch) -> bool:
        return batch.allow_microbatching


class Flow014(Flow017):
    """Release 0.14: the decisions of 0.17. Only its agreement and its dispatcher are other classes."""


class Flow033(BatchFlow):
    """Release 0.33: a dummy is as long as a decode, and cascade attention may use any graph.

    A rank forbids a split if one request reads cache blocks that another request of the step still writes.
    """

    def dummy_tokens(self) -> int:
        return self.q

    def forbids_full(self, batch: Batch) -> bool:
        return batch.encoder_reqs > 0

    def may_split(self, batch: Batch) -> bool:
        return batch.allow_microbatching and not batch.reads_unwritten
