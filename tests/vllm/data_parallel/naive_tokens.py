"""A second, deliberately naive computation of the sums of a step's forward, from the batches of the schedulers only.

It imports nothing of dpsim, and prefers loops to formulas. From the tokens of each request in each step, it counts
positions and arranges the tokens in rows. It cuts the rows into microbatches, and sums the rows of all ranks in each.
"""

from __future__ import annotations

from collections.abc import Sequence

Pairs = Sequence[tuple[int, int]]
"""A batch: (request, tokens) for each request."""

PADDING = 0


def naive_value(request: int, position: int) -> int:
    """Returns the value of a token, so that neighbouring positions of a request differ by one.

    Each request begins 618,034 after the one before, modulo the prime 1,000,003. So the values of two requests are far
    apart.
    """
    place = 0
    for _ in range(request):
        place = place + 618_034
        if place >= 1_000_003:
            place = place - 1_000_003
    return place + position + 1


class Reckoner:
    """Computes the values of the tokens step by step. `prompts` has the prompt length of each request, in tokens."""

    def __init__(self, prompts: Sequence[int]) -> None:
        self.prompts = prompts
        self.computed = [0] * len(prompts)

    def values(self, batch: Pairs) -> list[int]:
        """Returns the values of a rank's tokens in a step, in order, and counts the tokens as computed."""
        values = []
        for request, tokens in batch:
            for place in range(tokens):
                values.append(naive_value(request, self.computed[request] + place))
            # All tokens of a prompt stay computed. Of a decode, only the first does: the others are drafts.
            if self.computed[request] < self.prompts[request]:
                self.computed[request] = self.computed[request] + tokens
            else:
                self.computed[request] = self.computed[request] + 1
        return values

    def sums(self, batches: Sequence[Pairs], counts: Sequence[int], microbatches: int) -> list[int]:
        """Returns the sum of all rows, for each microbatch of a step. `counts` has the number of rows of each rank."""
        sums = [0] * microbatches
        for batch, count in zip(batches, counts, strict=True):
            values = self.values(batch)
            rows = values + [PADDING] * (count - len(values))
            assert len(rows) == count, "a rank that has more tokens than rows"
            size = count // microbatches
            for row in range(count):
                number = 0
                while number < microbatches - 1 and row >= size * (number + 1):
                    number = number + 1
                sums[number] = sums[number] + rows[row]
        return sums
