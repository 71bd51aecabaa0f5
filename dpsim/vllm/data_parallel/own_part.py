"""The part of a timeline that one rank may read.

The programs compute the batches of all ranks before the run. A variant that reads those of its peers agrees without
communication, and its proof is worth nothing. So the view of a rank refuses them:

    >>> from dpsim.vllm.config import EngineConfig
    >>> from dpsim.vllm.params.arguments import Request
    >>> timeline = Timeline([Request(0, 5, 2), Request(0, 3, 1)], ranks=2, config=EngineConfig(), step_ns=20_000_000)
    >>> own = OwnPart(timeline, dp_index=1)
    >>> own.batches(0)[1].num_tokens, len(own.batches(0))
    (3, 2)
    >>> own.batches(0)[0]
    Traceback (most recent call last):
    dpsim.vllm.data_parallel.own_part.PeerBatch: the rank of dp_index 1 reads the batch of dp_index 0 in step 0. A \
real rank knows only its own, timeline.batches(step)[self.dp_index]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import Any

from dpsim.vllm.data_parallel.timeline import Batch, Batches, Timeline


class PeerBatch(AssertionError):
    """A rank reads the batch of another data-parallel rank."""


class OwnPart(Batches):
    """The timeline, with the batches of one rank only. `dp_index`: the rank's place in its data-parallel group."""

    def __init__(self, timeline: Timeline, dp_index: int) -> None:
        self._timeline, self._dp_index = timeline, dp_index

    @property
    def steps(self) -> int:
        return self._timeline.steps

    def batches(self, step: int) -> Sequence[Batch]:
        """The batches of a step. Every index but `dp_index` raises PeerBatch, and so does a loop over several ranks."""
        return _OwnBatch(self._timeline.batches(step), self._dp_index, step)

    def extent(self) -> tuple[int, int, int]:
        return self._timeline.extent()

    def cached_prefixes(self) -> Mapping[int, int]:
        return self._timeline.cached_prefixes()


class _OwnBatch(Sequence[Batch]):
    def __init__(self, batches: Sequence[Batch], dp_index: int, step: int) -> None:
        self._batches, self._dp_index, self._step = batches, dp_index, step

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, key: Any) -> Any:
        wanted = range(len(self._batches))[key]
        for one in wanted if isinstance(wanted, range) else [index(wanted)]:
            if one != self._dp_index:
                raise PeerBatch(
                    f"the rank of dp_index {self._dp_index} reads the batch of dp_index {one} in step {self._step}. A "
                    "real rank knows only its own, timeline.batches(step)[self.dp_index]"
                )
        return self._batches[key]
