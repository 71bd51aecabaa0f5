"""Compares the cut of a batch into microbatches (specification chapter 3).

The questions concern the cut itself, an empty last microbatch, and the attention metadata of each microbatch.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from dpsim.vllm.data_parallel.microbatch import Slice, Slices, Slicing, last_microbatch_empty
from dpsim.vllm.data_parallel.microbatch_inputs import AttentionMetadata, MetadataCut, attention_metadata
from dpsim.vllm.releases import V0_14, V0_33, Absent, Release
from dpsim_engine.comparison import Comparison, Row, ours_of


class Split(NamedTuple):
    """A batch and its cut.

    All counts are tokens or requests; `scheduled` and `computed` have one number for each request.
    """

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
        """The request of each real token."""
        return [request for request, count in enumerate(self.scheduled) for _ in range(count)]

    @property
    def positions(self) -> list[tuple[int, int]]:
        """The request and the position within it, for each real token."""
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


def slice_row(one: Slice) -> Row:
    requests, tokens = [[part.start, part.stop] for part in one]
    return {"requests": requests, "tokens": tokens, "empty": one.empty}


def question(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in ("answer", "last_ubatch_empty")}


# ---- the cut of a batch


def cut(row: Row, slicing: Slicing) -> Row:
    own, padded = of_row(row).slices(slicing)
    return {"slices": [slice_row(one) for one in own], "padded": [slice_row(one) for one in padded]}


def cut_v2(row: Row, slicing: Slicing) -> list[Row]:
    return [slice_row(one) for one in of_row(row).slices(slicing).padded]


def slicing_of(release: Release) -> Slicing | Absent:
    return release.microbatches if isinstance(release.microbatches, Absent) else release.microbatches.slicing()


def slicing_of_v2(release: Release) -> Slicing | Absent:
    if isinstance(release.v2, Absent) or isinstance(release.v2.microbatches, Absent):
        return Absent("there is no V2 runner with microbatches")
    return release.v2.microbatches.slicing()


SLICES: Comparison[Slicing] = Comparison(
    "slices",
    "slices",
    "vllm.v1.worker.ubatch_utils.maybe_create_ubatch_slices",
    ours_of(slicing_of, V0_14, V0_33),
    cut,
    lambda row: {name: row["answer"][name] for name in ("slices", "padded")},
    question=question,
    piece=slicing_of,
)

SLICES_V2: Comparison[Slicing] = Comparison(
    "slices_v2",
    "slices",
    "vllm.v1.worker.gpu.ubatch_utils.create_ubatch_slices",
    ours_of(slicing_of_v2, V0_33),
    cut_v2,
    lambda row: row["answer"]["v2_runner"],
    applies=lambda row: row["split_point"] is None,
    question=question,
    piece=slicing_of_v2,
)

# ---- an empty last microbatch


def last_empty_of(release: Release) -> Callable[[int, int, int], bool] | Absent:
    """Returns the test for an empty last microbatch, which is equal in all releases that split batches."""
    return release.microbatches if isinstance(release.microbatches, Absent) else last_microbatch_empty


LAST_EMPTY: Comparison[Callable[[int, int, int], bool]] = Comparison(
    "last_ubatch_empty",
    "slices",
    "vllm.v1.worker.ubatch_utils.is_last_ubatch_empty",
    ours_of(last_empty_of, V0_14, V0_33),
    lambda row, empty: empty(sum(row["num_scheduled_tokens"]), row["num_tokens_padded"], row["num_ubatches"]),
    lambda row: row["last_ubatch_empty"],
    question=question,
    piece=last_empty_of,
)

# ---- attention metadata

Metadata = tuple[Slicing, MetadataCut]


def metadata_row(metadata: AttentionMetadata) -> Row:
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in metadata._asdict().items()
    }


def cut_metadata(row: Row, ours: Metadata) -> list[Any]:
    """Returns the metadata of all microbatches, cut one after the other from one batch's metadata, or the error."""
    slicing, cuts = ours
    split = of_row(row)
    whole, found = split.metadata(), []
    for one in split.slices(slicing).padded:
        try:
            found.append(metadata_row(cuts.cut(whole, one)))
        except (AssertionError, IndexError) as error:
            found.append({"raises": type(error).__name__})
    return found


def metadata_of(release: Release) -> Metadata | Absent:
    forward = release.microbatches
    return forward if isinstance(forward, Absent) else (forward.slicing(), forward.metadata_cut())


METADATA: Comparison[Metadata] = Comparison(
    "metadata",
    "slices",
    "vllm.v1.worker.ubatch_utils.split_attn_metadata",
    ours_of(metadata_of, V0_14, V0_33),
    cut_metadata,
    lambda row: row["answer"]["metadata"],
    question=question,
    piece=metadata_of,
)
