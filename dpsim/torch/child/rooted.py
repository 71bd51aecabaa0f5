"""Gather and scatter of a process group: one member is the root, which has a tensor for each member.

In a gather, each member sends a tensor to the root. In a scatter, each member receives one from the root. A member that
is not the root passes an empty list. torch 2.14 has a gather into one tensor as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpsim.torch.child.pieces import alike, chunks, cut, fill, named
from dpsim.torch.child.works import Started, Then

Many = Sequence[Any]


class RootedCalls:
    """The part of `RankGroup` with gather and scatter. `ranks`: global ranks. `index`: the rank in the group."""

    index: int
    count: int
    ranks: list[int]

    def _start(self, call: str, given: Many, then: Then, out: Many | None = None, **about: Any) -> Started:
        """`RankGroup` implements this method."""
        raise NotImplementedError

    def gather(self, outputs: Many, inputs: Many, opts: Any) -> Started:
        [source] = inputs
        parts = alike("gather", outputs[0], source, self.count) if self.index == opts.rootRank else []
        return self._gathers(parts, source, opts)

    def gather_single(self, output: Any, source: Any, opts: Any) -> Started:
        mine = self.index == opts.rootRank
        if mine and output.numel() != source.numel() * self.count:
            raise ValueError("output tensor size must be equal to world_size times input tensor size")
        return self._gathers(chunks(output, self.count) if mine else [], source, opts)

    gather_into_tensor = gather_single

    def _gathers(self, parts: Many, source: Any, opts: Any) -> Started:
        def then(blocks: list[bytes]) -> None:
            for part, block in zip(parts, cut(blocks[0], self.count) if parts else [], strict=True):
                fill(part, block)

        about = {"dtype": named(source.dtype), "elements": source.numel(), "root": self.ranks[opts.rootRank]}
        return self._start("gather", [source], then, parts, **about)

    def scatter(self, outputs: Many, inputs: Many, opts: Any) -> Started:
        [target] = outputs
        pieces = alike("scatter", inputs[0], target, self.count) if self.index == opts.rootRank else []
        about = {"dtype": named(target.dtype), "elements": target.numel() * self.count}
        about["root"] = self.ranks[opts.rootRank]
        return self._start("scatter", pieces, lambda blocks: fill(target, blocks[0]), [target], **about)
