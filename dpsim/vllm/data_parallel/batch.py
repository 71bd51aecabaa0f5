"""The data-parallel batch agreement (specification chapter 1): every rank sends its batch, all decide the same.

Before each forward all ranks of a data-parallel group agree on its microbatches, its CUDA graph mode, and the tokens of
each rank. Otherwise their later collectives do not match. Each rank writes its column of a zero table, and one SUM
all-reduce gathers the table. The decision is a
**pure function of the reduced table and the configuration**.

There are two published forms of wire format and decision, both with the interface `BatchForm`. A release has one of
them (`dpsim.vllm.releases`):

    Source000    4 rows; ranks agree on the mode first, and padding follows from it (0.17 to 0.33)
    Release014   5 rows; padding has a separate row, fixed by configuration; the second dispatch forbids FULL only

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
from dpsim.vllm.data_parallel.one_graph import refuse_other_mode


class LocalBatch(NamedTuple):
    """The column of one rank: its real tokens, the tokens of its graph (`num_tokens_padded` >= `num_tokens`), its
    wishes and its mode.
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
    """The local batch of a rank, with its wish on the unpadded count (1.5, step 1).

    Raises AssertionError if `num_tokens_padded` is below `num_tokens`. Raises it, too, for a batch that may be split
    without `uniform_decode` (1.3). A single rank skips the agreement; neither check applies.
    """
    assert num_tokens_padded >= num_tokens, f"{num_tokens} tokens padded to {num_tokens_padded}"
    wish = False
    if allow_microbatching:
        assert uniform_decode is not None, "uniform_decode is missing: is the batch a uniform decode, True or False?"
        wish = wants_microbatching(num_tokens, uniform_decode, config)
    return LocalBatch(num_tokens, num_tokens_padded, wish, wants_padding, mode)


class StepPlan(NamedTuple):
    """The agreement of all ranks. `num_tokens`: per data-parallel rank, after padding; None for a single rank
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
        """Assert this rank's conditions on the table, before it decides: AssertionError. Others may go on."""
        return

    @abstractmethod
    def allowed_modes(self, agreed: RuntimeMode) -> Set[RuntimeMode]:
        """The modes that a rank may choose in its second dispatch (1.6 d)."""

    def modes(self, table: HostArray) -> Sequence[int]:
        """The modes that the ranks sent: the last row of both forms."""
        sent: Sequence[int] = table[-1].tolist()
        return sent

    def settled(self, table: HostArray, plan: StepPlan) -> StepPlan:
        """The plan itself. Raises OtherMode if all ranks sent one mode, and the plan has another (I-DP-3)."""
        refuse_other_mode(self.modes(table), plan.mode)
        return plan

    def agreed_mode(self, modes: Sequence[int]) -> RuntimeMode:
        """The smallest of the modes sent (I-DP-3)."""
        return RuntimeMode(min(modes))

    def agreed_microbatching(
        self, wishes: Sequence[int], tokens: Sequence[int], padded: Sequence[int], config: Microbatching
    ) -> bool:
        """Whether all ranks wish it, and the smallest rank still has a token in its last microbatch after all pad to
        the largest count (I-DP-7).
        """
        return set(wishes) == {1} and not last_microbatch_empty(min(tokens), max(padded), config.num_ubatches)

    def padded_tokens(self, padded: Sequence[int], pad: bool) -> tuple[int, ...]:
        """The largest count for all ranks, or each rank's own count."""
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
    """Release 0.14: pad if every rank wants padding, or if the step is microbatched. The mode is the last decision. If
    only some ranks want padding, those ranks raise, and the others go on without it.
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
