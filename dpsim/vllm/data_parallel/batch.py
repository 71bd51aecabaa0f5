"""The data-parallel batch agreement of the V1 runner: every rank sends its batch, and all decide the same.

Before each forward, ranks agree on graph mode, tokens and microbatches, because their expert collectives have to match.
Each rank writes its numbers into its own column of a zero table, and one SUM all-reduce gathers the columns. The
decision is a **pure function of the reduced table and the configuration**, so all ranks decide alike.

    Source000    4 rows; ranks agree on the mode first, and padding follows from it (0.17 to 0.33)
    Release014   5 rows; padding has a separate row, fixed by configuration; the second dispatch forbids FULL only

    >>> import numpy as np
    >>> form = Source000()
    >>> locals_ = [LocalBatch(3, 4, False, True, RuntimeMode.FULL), LocalBatch(7, 8, False, True, RuntimeMode.FULL)]
    >>> table = np.array([form.column(local) for local in locals_], np.int32).T
    >>> form.decide(table, Microbatching())  # example A-2
    StepPlan(microbatched=False, num_tokens=(8, 8), mode=<RuntimeMode.FULL: 2>)

Source: specification 1.3 to 1.6.
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
    """What one rank sends. `num_tokens`: its real tokens. `num_tokens_padded`: the tokens of the graph that it would
    run by itself, at least `num_tokens`. `mode`: the mode of this graph.
    """

    num_tokens: int
    num_tokens_padded: int
    wants_microbatching: bool
    wants_padding: bool
    mode: RuntimeMode


def batch_to_send(
    num_tokens: int,
    num_tokens_padded: int,
    allow_microbatching: bool,
    uniform_decode: bool | None,
    wants_padding: bool,
    mode: RuntimeMode,
    config: Microbatching,
) -> LocalBatch:
    """Returns what a rank sends; its wish depends on its unpadded count (specification 1.5, step 1).

    AssertionError: `num_tokens_padded` below `num_tokens`, or `allow_microbatching` with None for `uniform_decode`
    (specification 1.3). A single rank does not call this function.
    """
    assert num_tokens_padded >= num_tokens, f"{num_tokens} tokens padded to {num_tokens_padded}"
    wish = False
    if allow_microbatching:
        assert uniform_decode is not None, "uniform_decode is missing: is the batch a uniform decode, True or False?"
        wish = wants_microbatching(num_tokens, uniform_decode, config)
    return LocalBatch(num_tokens, num_tokens_padded, wish, wants_padding, mode)


class StepPlan(NamedTuple):
    """The agreement. `num_tokens`: the padded tokens of each rank; None for a single rank (invariant I-DP-8)."""

    microbatched: bool
    num_tokens: tuple[int, ...] | None
    mode: RuntimeMode


class BatchForm(ABC):
    """A published form of the agreement: wire format, decision, and the modes that the second dispatch may choose."""

    rows: int

    @abstractmethod
    def column(self, local: LocalBatch) -> tuple[int, ...]:
        """This rank's column of the table: `rows` int32 values. All ranks have to write their values in the same
        order.
        """

    @abstractmethod
    def decide(self, table: HostArray, config: Microbatching) -> StepPlan:
        """Decides from the reduced table, int32 of shape (rows, ranks), and returns the plan."""

    def refuse(self, table: HostArray, local: LocalBatch) -> None:
        """Checks this rank's own conditions before the decision. AssertionError on this rank only; others may go on."""
        return

    @abstractmethod
    def allowed_modes(self, agreed: RuntimeMode) -> Set[RuntimeMode]:
        """The modes that a rank may choose in its second dispatch (specification 1.6 d)."""

    def modes(self, table: HostArray) -> Sequence[int]:
        """The modes that the ranks sent. Both forms have them in the last row of the table."""
        sent: Sequence[int] = table[-1].tolist()
        return sent

    def settled(self, table: HostArray, plan: StepPlan) -> StepPlan:
        """Returns the plan. OtherMode: all ranks sent one mode, and the plan has another (invariant I-DP-3)."""
        refuse_other_mode(self.modes(table), plan.mode)
        return plan

    def agreed_mode(self, modes: Sequence[int]) -> RuntimeMode:
        """The smallest of the modes that the ranks sent (invariant I-DP-3)."""
        return RuntimeMode(min(modes))

    def agreed_microbatching(
        self, wishes: Sequence[int], tokens: Sequence[int], padded: Sequence[int], config: Microbatching
    ) -> bool:
        """Whether the ranks split the step. All ranks have to wish it. Also, after all ranks pad to the largest count,
        the rank with the fewest tokens needs a real token in its last microbatch (invariant I-DP-7).
        """
        return set(wishes) == {1} and not last_microbatch_empty(min(tokens), max(padded), config.num_ubatches)

    def padded_tokens(self, padded: Sequence[int], pad: bool) -> tuple[int, ...]:
        """The counts of all ranks: with `pad` the largest count for each rank, else each rank's own count."""
        return (max(padded),) * len(padded) if pad else tuple(padded)


class Source000(BatchForm):
    """Page 000, releases 0.17 to 0.33: ranks pad if the mode uses a graph, or if they split (specification 1.5)."""

    rows = 4

    def column(self, local: LocalBatch) -> tuple[int, ...]:
        return local.num_tokens, local.num_tokens_padded, int(local.wants_microbatching), int(local.mode)

    def decide(self, table: HostArray, config: Microbatching) -> StepPlan:
        tokens, padded, wishes, modes = table.tolist()  # for a few numbers, Python is faster than numpy
        mode = self.agreed_mode(modes)
        microbatched = self.agreed_microbatching(wishes, tokens, padded, config)
        return StepPlan(microbatched, self.padded_tokens(padded, mode != RuntimeMode.NONE or microbatched), mode)

    def allowed_modes(self, agreed: RuntimeMode) -> Set[RuntimeMode]:
        return {agreed}


class Release014(BatchForm):
    """Release 0.14: ranks pad if all want it, or if they split. Padding does not depend on the mode.

    If only some ranks want padding, those raise AssertionError, and the others continue without padding.
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
