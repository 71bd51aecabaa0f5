"""Batches to split: drawn ones, and those that the engine was asked about."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple

from hypothesis import strategies as st

from dpsim.protocol.data_parallel.microbatch import Slice, Slices, Slicing, last_microbatch_empty
from dpsim.protocol.data_parallel.microbatch_inputs import AttentionMetadata, attention_metadata


class Split(NamedTuple):
    """A batch, and into how many parts it is cut. Counts are tokens, a number a request."""

    scheduled: list[int]
    computed: list[int]
    num_tokens_padded: int
    num_reqs_padded: int
    num_ubatches: int
    split: int | list[int] | None = None

    @property
    def num_tokens(self) -> int:
        return sum(self.scheduled)

    @property
    def last_empty(self) -> bool:
        return last_microbatch_empty(self.num_tokens, self.num_tokens_padded, self.num_ubatches)

    @property
    def owners(self) -> list[int]:
        """Whose each real token is."""
        return [request for request, count in enumerate(self.scheduled) for _ in range(count)]

    @property
    def positions(self) -> list[tuple[int, int]]:
        """(request, position) of each real token."""
        starts = [0, *accumulate(self.scheduled)]
        return [(request, self.computed[request] + row - starts[request]) for row, request in enumerate(self.owners)]

    def slices(self, slicing: Slicing) -> Slices:
        tokens, requests = self.num_tokens_padded, self.num_reqs_padded
        return slicing.slices(self.scheduled, tokens, requests, self.num_ubatches, self.split)

    def metadata(self) -> AttentionMetadata:
        return attention_metadata(self.scheduled, self.computed, self.num_reqs_padded)


@st.composite
def splits(draw: st.DrawFn, last_empty: bool = True) -> Split:
    """A few requests, of one token or several, with and without padding. `last_empty`: also where the last part has
    nothing but padding.
    """
    counts = st.just(1) if draw(st.booleans()) else st.integers(1, 9)
    scheduled = draw(st.lists(counts, min_size=1, max_size=8))
    computed = [draw(st.integers(0, 9)) for _ in scheduled]
    parts = draw(st.integers(2, 4))
    if not last_empty:
        scheduled[0] += parts
    fewest = max(sum(scheduled), parts)
    drawn = Split(
        scheduled,
        computed,
        fewest + draw(st.integers(0, 12)),
        len(scheduled) + draw(st.integers(0, 4)),
        parts,
    )
    return drawn if last_empty or not drawn.last_empty else drawn._replace(num_tokens_padded=fewest)


def of_row(row: dict[str, Any]) -> Split:
    return Split(
        row["num_scheduled_tokens"],
        row["num_computed_tokens"],
        row["num_tokens_padded"],
        row["num_reqs_padded"],
        row["num_ubatches"],
        row["split_point"],
    )


def as_told(one: Slice) -> dict[str, Any]:
    requests, tokens = [[part.start, part.stop] for part in one]
    return {"requests": requests, "tokens": tokens, "empty": one.empty}
