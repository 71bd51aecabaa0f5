"""A witness: it compares the results of a rank's steps with the batches of its scheduler.

Ranks may agree on all sizes, and still run fewer tokens than scheduled. No engine checks it (I-DP-6). So a rank hands
its rows to a witness, after the collective of the experts has summed the rows of all ranks. It takes the batch from the
scheduler and not from the step, because the step may be wrong.

It raises the first difference, as a finding such as CRASH:DROPPEDTOKENS:

    DroppedTokens   a scheduled token is missing from the output
    WrongSum        a row has another value, or a row of padding is not zero
    WrongCache      a row of a cache does not contain exactly the tokens of its request
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsim.contract.interface import HostArray
from dpsim.vllm.data_parallel.timeline import Batch, Batches
from dpsim.vllm.model import rows
from dpsim.vllm.model.compared import step_text


class WrongRows(AssertionError):
    """The output of a forward differs from the batch of the scheduler."""


class DroppedTokens(WrongRows):
    """A scheduled token is missing from the output."""


class WrongSum(WrongRows):
    """A row of the output has another value than the model computes."""


class WrongCache(WrongRows):
    """A cache differs from what the steps wrote: a kernel wrote into another request's row (I-ES-7)."""


class Witness:
    """The witness of one data-parallel rank. `shares`: the number of ranks that add the same rows."""

    def __init__(self, timeline: Batches, dp_index: int, shares: int) -> None:
        self.timeline, self.dp_index, self.shares = timeline, dp_index, shares
        self.next_step = 0

    def check_step(self, step: int, parts: Sequence[HostArray], now: int) -> None:
        """Compare this rank's rows, one array a microbatch. `now`: its step. Raises DroppedTokens, WrongSum."""
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
            raise difference(step_text(step, now), batch, own, expected)

    def end(self) -> None:
        """Check that the rank ran each step with tokens. Raises DroppedTokens."""
        self._left_out(self.timeline.steps)

    def cache(self, rows_of: HostArray) -> None:
        """Compare a cache after all steps: a row a request, and an ignored one for padding. Raises WrongCache."""
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
        for step in range(self.next_step, stop):
            tokens = self.timeline.batches(step)[self.dp_index].num_tokens
            if tokens:
                raise DroppedTokens(f"{tokens} tokens were scheduled in step {step}, and it never ran (I-DP-6)")


def difference(step: str, batch: Batch, own: HostArray, expected: HostArray) -> WrongRows:
    """Returns the error for the first wrong row. `step`: the step of the batch, in words."""
    real, size = batch.num_tokens, len(own)
    row = next((row for row in range(size) if own[row] != expected[row]), size)
    token = ""
    if row < real:
        ((request, _, position),) = rows.cut(batch.scheduled, row, row + 1)
        token = f"token {row} (request {request}, position {position})"
    if token and (row == size or not own[row]):
        return DroppedTokens(
            f"{real} tokens were scheduled in {step}, the forward had room for {size}, "
            f"and {token} did not come out (I-DP-6)"
        )
    return WrongSum(
        f"row {row} of {size} of {step} sums up to {own[row]}, the model says {expected[row]}: {token or 'padding'}"
    )
