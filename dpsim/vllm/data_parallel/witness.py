"""Compares the results of a rank's steps with the batches of its scheduler (I-DP-6 of specification 1.10).

Ranks may agree on everything, size for size, and still run fewer tokens than were scheduled. Then the list of counts is
too small, or a rank uses the wrong entry. No engine checks this. So each rank compares its own rows, after the experts
have added up all ranks' rows, with the tokens of its batch. The batch is that of the timeline, not that of the step,
since the step may be wrong.

The witness raises each difference, and a finding has the name of its class, as CRASH:DROPPEDTOKENS:

    DroppedTokens   a scheduled token did not come out
    WrongSum        another value came out, or a row of padding holds something
    WrongCache      a row of a cache does not hold the tokens of its request, and nothing else
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsim.contract.interface import HostArray
from dpsim.vllm.data_parallel.timeline import Batch, Batches
from dpsim.vllm.model import rows


class WrongRows(AssertionError):
    """The output of a forward is not what the scheduler put in."""


class DroppedTokens(WrongRows):
    """A scheduled token did not come out."""


class WrongSum(WrongRows):
    """A row is not the sum that the model says."""


class WrongCache(WrongRows):
    """A cache differs from what the steps wrote: a kernel wrote into a row of another request (I-ES-7)."""


class Witness:
    """Looks at all steps of one data-parallel rank. `shares`: ranks that add the same rows."""

    def __init__(self, timeline: Batches, dp_index: int, shares: int) -> None:
        self.timeline, self.dp_index, self.shares = timeline, dp_index, shares
        self.next_step = 0

    def came(self, step: int, parts: Sequence[HostArray]) -> None:
        """Compare this rank's own rows of a step, one array for each microbatch."""
        if step != self.next_step:
            self._left_out(step)
        self.next_step = step + 1
        own = parts[0] if len(parts) == 1 else np.concatenate(parts)
        batch = self.timeline.batches(step)[self.dp_index]
        expected = np.empty(max(len(own), batch.num_tokens), own.dtype)
        rows.write(expected, 0, batch.scheduled)
        if self.shares > 1:
            expected *= self.shares
        if own.tobytes() != expected.tobytes():
            raise difference(step, batch, own, expected)

    def end(self) -> None:
        """Check that no step with tokens is missing."""
        self._left_out(self.timeline.steps)

    def cache(self, rows_of: HostArray) -> None:
        """Compare a cache after all steps: a row for each request, and a last one that no request has."""
        expected = np.zeros_like(rows_of)
        for step in range(self.timeline.steps):
            for request, tokens, first in self.timeline.batches(step)[self.dp_index].scheduled:
                for position in range(first + tokens):  # a shared prefix, too
                    expected[request, position] = rows.value(request, position)
        for request, position in np.argwhere(expected[:-1] != rows_of[:-1]).tolist():
            raise WrongCache(
                f"row {request} of a cache holds {rows_of[request, position]} at position {position}, "
                f"where {expected[request, position]} was put (I-ES-7)"
            )

    def _left_out(self, stop: int) -> None:
        """Raise for a step that this rank never ran, if it has tokens."""
        for step in range(self.next_step, stop):
            tokens = self.timeline.batches(step)[self.dp_index].num_tokens
            if tokens:
                raise DroppedTokens(f"{tokens} tokens were scheduled in step {step}, and it never ran (I-DP-6)")


def difference(step: int, batch: Batch, own: HostArray, expected: HostArray) -> WrongRows:
    """The error of the first wrong row."""
    real, came = batch.num_tokens, len(own)
    row = next((row for row in range(came) if own[row] != expected[row]), came)
    token = ""
    if row < real:
        ((request, _, position),) = rows.cut(batch.scheduled, row, row + 1)
        token = f"token {row} (request {request}, position {position})"
    if token and (row == came or not own[row]):
        return DroppedTokens(
            f"{real} tokens were scheduled in step {step}, the forward had room for {came}, "
            f"and {token} did not come out (I-DP-6)"
        )
    return WrongSum(
        f"row {row} of {came} of step {step} sums up to {own[row]}, "
        f"the model says {expected[row]}: {token or 'padding'}"
    )
