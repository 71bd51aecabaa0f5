"""A second, deliberately naive reckoning of what a step's forward adds up, from the schedulers' batches alone.

It imports nothing of dpsim. From the tokens of each request in each step it counts positions and lays the tokens out in
rows. It cuts these into microbatches, and adds up what all ranks have in each. Loops are preferred to formulas.
"""

from __future__ import annotations

from collections.abc import Sequence

Pairs = Sequence[tuple[int, int]]
"""A batch: (request, tokens)."""

PADDING = 0


def naive_value(request: int, position: int) -> int:
    """A token's value: requests lie apart by the golden section of a prime, and positions follow one another."""
    place = 0
    for _ in range(request):
        place = place + 618_034
        if place >= 1_000_003:
            place = place - 1_000_003
    return place + position + 1


class Reckoner:
    """Goes through the steps in their order. `prompts`: of each request how many tokens its prompt has."""

    def __init__(self, prompts: Sequence[int]) -> None:
        self.prompts = prompts
        self.computed = [0] * len(prompts)

    def values(self, batch: Pairs) -> list[int]:
        """The values of a rank's tokens in a step, one after the other."""
        values = []
        for request, tokens in batch:
            for place in range(tokens):
                values.append(naive_value(request, self.computed[request] + place))
            # A prompt's tokens are computed for good; of a decode's, the first is, and the rest are drafts.
            if self.computed[request] < self.prompts[request]:
                self.computed[request] = self.computed[request] + tokens
            else:
                self.computed[request] = self.computed[request] + 1
        return values

    def sums(self, batches: Sequence[Pairs], counts: Sequence[int], microbatches: int) -> list[int]:
        """The sum over all ranks' rows, of each microbatch of a step. `counts`: rows of each rank."""
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
