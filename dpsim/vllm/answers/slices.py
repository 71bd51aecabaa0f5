"""Microbatches of a batch: where they are cut, whether the last one is empty, and what attention is told of each
(specification chapter 3).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from dpsim.vllm.answers.comparison import Comparison, Ours, Row
from dpsim.vllm.data_parallel.microbatch import (
    Slice,
    Slices,
    Slicing,
    Slicing033,
    SlicingV2,
    last_microbatch_empty,
)
from dpsim.vllm.data_parallel.microbatch_inputs import AttentionMetadata, MetadataCut, attention_metadata


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


def of_row(row: Row) -> Split:
    return Split(
        row["num_scheduled_tokens"],
        row["num_computed_tokens"],
        row["num_tokens_padded"],
        row["num_reqs_padded"],
        row["num_ubatches"],
        row["split_point"],
    )


def as_told(one: Slice) -> Row:
    requests, tokens = [[part.start, part.stop] for part in one]
    return {"requests": requests, "tokens": tokens, "empty": one.empty}


def question(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in ("answer", "last_ubatch_empty")}


# ---- where it is cut


def cut(row: Row, slicing: Slicing) -> Row:
    own, padded = of_row(row).slices(slicing)
    return {"slices": [as_told(one) for one in own], "padded": [as_told(one) for one in padded]}


def cut_v2(row: Row, slicing: Slicing) -> list[Row]:
    return [as_told(one) for one in of_row(row).slices(slicing).padded]


SLICES: Comparison[Slicing] = Comparison(
    "slices",
    "slices",
    "vllm.v1.worker.ubatch_utils.maybe_create_ubatch_slices",
    (Ours("0.14.0", Slicing()), Ours("0.33.0", Slicing033())),
    cut,
    lambda row: {name: row["answer"][name] for name in ("slices", "padded")},
    question=question,
)

SLICES_V2: Comparison[Slicing] = Comparison(
    "slices_v2",
    "slices",
    "vllm.v1.worker.gpu.ubatch_utils.create_ubatch_slices",
    (Ours("0.33.0", SlicingV2()),),
    cut_v2,
    lambda row: row["answer"]["v2_runner"],
    applies=lambda row: row["split_point"] is None,
    question=question,
)

# ---- whether the last one is empty

LAST_EMPTY: Comparison[Callable[[int, int, int], bool]] = Comparison(
    "last_ubatch_empty",
    "slices",
    "vllm.v1.worker.ubatch_utils.is_last_ubatch_empty",
    (Ours("0.14.0", last_microbatch_empty), Ours("0.33.0", last_microbatch_empty)),
    lambda row, empty: empty(sum(row["num_scheduled_tokens"]), row["num_tokens_padded"], row["num_ubatches"]),
    lambda row: row["last_ubatch_empty"],
    question=question,
)

# ---- what attention is told

Metadata = tuple[Slicing, MetadataCut]


def metadata_as_told(metadata: AttentionMetadata) -> Row:
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in metadata._asdict().items()
    }


def cut_metadata(row: Row, ours: Metadata) -> list[Any]:
    """The metadata of all microbatches, cut one after the other out of one batch's, or which error there is."""
    slicing, cuts = ours
    split = of_row(row)
    whole, found = split.metadata(), []
    for one in split.slices(slicing).padded:
        try:
            found.append(metadata_as_told(cuts.cut(whole, one)))
        except (AssertionError, IndexError) as error:
            found.append({"raises": type(error).__name__})
    return found


METADATA: Comparison[Metadata] = Comparison(
    "metadata",
    "slices",
    "vllm.v1.worker.ubatch_utils.split_attn_metadata",
    (Ours("0.14.0", (Slicing(), MetadataCut())), Ours("0.33.0", (Slicing033(), MetadataCut()))),
    cut_metadata,
    lambda row: row["answer"]["metadata"],
    question=question,
)
