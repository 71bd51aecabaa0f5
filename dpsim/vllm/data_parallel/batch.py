"""The data-parallel batch agreement (specification chapter 1): every rank tells its batch, all decide the same.

Before each forward all ranks of a data-parallel group must agree on (a) whether the step is microbatched, (b) how
many tokens each rank runs, (c) the CUDA graph mode: nothing else makes their later collectives match. Each rank
writes its own column of a zero table, one SUM all-reduce gathers the table, and the decision is a **pure function
of the reduced table and the configuration**.

Two published forms of wire format and decision stand behind one interface, `BatchForm`. A release has
one of them (`dpsim.vllm.releases`):

    Source000    4 rows; the mode is agreed first and padding follows from it (0.17 to 0.33)
    Release014   5 rows; padding is a row of its own, fixed by configuration; the second dispatch forbids FULL only

    >>> import numpy as np
    >>> form = Source000()
    >>> locals_ = [LocalBatch(3, 4, False, True, RuntimeMode.FULL), LocalBatch(7, 8, False, True, RuntimeMode.FULL)]
    >>> table = np.array([form.column(local) for local in locals_], np.int32).T
    >>> form.decide(table, Microbatching())  # example A-2
    StepPlan(microbatched=False, num_tokens=(8, 8), mode=<RuntimeMode.FULL: 2>)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence, Set
from typing import NamedTuple

from dpsim.contract.interface import HostArray
from dpsim.vllm.config import Microbatching, RuntimeMode
from dpsim.vllm.data_parallel.microbatch import last_microbatch_empty, wants_microbatching


class LocalBatch(NamedTuple):
    """What one rank brings: real tokens, tokens of its own graph (`num_tokens_padded` >= `num_tokens`), wishes, own
    mode.
    """

    num_tokens: int
    num_tokens_padded: int
    wants_microbatching: bool
    wants_padding: bool
    mode: RuntimeMode


def told(
    num_tokens: int,
    num_tokens_padded: int,
    allow_microbatching: bool,
    uniform_decode: bool | None,
    wants_padding: bool,
    mode: RuntimeMode,
    config: Microbatching,
) -> LocalBatch:
    """What a rank tells of its batch, with its wish on the unpadded count (1.5, step 1).

    Raises AssertionError for a batch padded to less than it has, and where nobody said whether a batch that may be
    split is a uniform decode (1.3). A rank that is alone tells nobody, and neither is asked.
    """
    assert num_tokens_padded >= num_tokens, f"{num_tokens} tokens padded to {num_tokens_padded}"
    wish = False
    if allow_microbatching:
        assert uniform_decode is not None, "nobody said whether the batch is a uniform decode"
        wish = wants_microbatching(num_tokens, uniform_decode, config)
    return LocalBatch(num_tokens, num_tokens_padded, wish, wants_padding, mode)


class StepPlan(NamedTuple):
    """What all ranks agreed on. `num_tokens`: per data-parallel rank, after padding; None where there is one rank
    (I-DP-8).
    """

    microbatched: bool
    num_tokens: tuple[int, ...] | None
    mode: RuntimeMode


class BatchForm(ABC):
    """A published form of the agreement: wire format, decision, and what the second dispatch may choose."""

    rows: int

    @abstractmethod
    def column(self, local: LocalBatch) -> tuple[int, ...]:
        """This rank's column of the table: `rows` int32 values. The order of the rows is wire format."""

    @abstractmethod
    def decide(self, table: HostArray, config: Microbatching) -> StepPlan:
        """The plan, from the reduced table of shape (rows, ranks), int32."""

    def refuse(self, table: HostArray, local: LocalBatch) -> None:
        """What a rank asserts of the table for itself, before it decides: AssertionError. Others may go on."""
        return

    @abstractmethod
    def allowed_modes(self, agreed: RuntimeMode) -> Set[RuntimeMode]:
        """The modes among which a rank chooses in its second dispatch (1.6 d)."""

    def agreed_mode(self, modes: Sequence[int]) -> RuntimeMode:
        """The smallest of the modes sent (I-DP-3)."""
        return RuntimeMode(min(modes))

    def agreed_microbatching(
        self, wishes: Sequence[int], tokens: Sequence[int], padded: Sequence[int], config: Microbatching
    ) -> bool:
        """All wish it, and after padding to the largest count the smallest rank still has a token in its last
        microbatch (I-DP-7).
        """
        return set(wishes) == {1} and not last_microbatch_empty(min(tokens), max(padded), config.num_ubatches)

    def padded_tokens(self, padded: Sequence[int], pad: bool) -> tuple[int, ...]:
        """Everyone's largest count, or each rank's own."""
        return (max(padded),) * len(padded) if pad else tuple(padded)


class Source000(BatchForm):
    """Source page 000, as in 0.17 to 0.33: pad if the agreed mode uses a graph, or if the step is microbatched
    (1.5).
    """

    rows = 4

    def column(self, local: LocalBatch) -> tuple[int, ...]:
        return local.num_tokens, local.num_tokens_padded, int(local.wants_microbatching), int(local.mode)

    def decide(self, table: HostArray, config: Microbatching) -> StepPlan:
        tokens, padded, wishes, modes = table.tolist()  # a few numbers: plain ones are faster
        mode = self.agreed_mode(modes)
        microbatched = self.agreed_microbatching(wishes, tokens, padded, config)
        return StepPlan(microbatched, self.padded_tokens(padded, mode != RuntimeMode.NONE or microbatched), mode)

    def allowed_modes(self, agreed: RuntimeMode) -> Set[RuntimeMode]:
        return {agreed}


class Release014(BatchForm):
    """Release 0.14: pad if every rank wants padding, which all do or none, or if the step is microbatched; the mode
    comes last. Where ranks differ, the ones that want padding raise, and the others go on without it.
    """

    rows = 5

    def column(self, local: LocalBatch) -> tuple[int, ...]:
        wishes = int(local.wants_microbatching), int(local.wants_padding)
        return local.num_tokens, local.num_tokens_padded, *wishes, int(local.mode)

    def decide(self, table: HostArray, config: Microbatching) -> StepPlan:
        tokens, padded, wishes, paddings, modes = table.tolist()
        microbatched = self.agreed_microbatching(wishes, tokens, padded, config)
        pad = set(paddings) == {1} or microbatched
        return StepPlan(microbatched, self.padded_tokens(padded, pad), self.agreed_mode(modes))

    def refuse(self, table: HostArray, local: LocalBatch) -> None:
        paddings = table[3].tolist()
        assert not local.wants_padding or all(paddings), f"ranks differ in whether they want padding: {paddings}"

    def allowed_modes(self, agreed: RuntimeMode) -> Set[RuntimeMode]:
        without_full = {RuntimeMode.NONE, RuntimeMode.PIECEWISE}
        return without_full if agreed <= RuntimeMode.PIECEWISE else {*without_full, RuntimeMode.FULL}
