"""Streaming multiprocessors, shared out while microbatches run (specification 4.10).

A communication kernel that spins until its peers come holds its multiprocessors all the while. So that computing goes
on beside it, communication gets `c` of them for as long as microbatches run or are captured, and all get all of them
again afterwards: also after an exception, and before a replay.

A kernel that was set up for another number refuses to be launched, as cooperative ones do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class TooFewSMs(AssertionError):
    """A kernel finds another number of multiprocessors than it was set up for."""


class SMControl:
    """The multiprocessors of one rank. `wanted`: what the environment asks for; `most`: what the all-to-all can use."""

    total = 132
    wanted = 20
    most = 24

    def __init__(self) -> None:
        self.comm = self.compute = self.total

    @property
    def budget(self) -> int:
        """What communication gets while microbatches run. Raises AssertionError if nothing were left."""
        budget = min(self.wanted, self.most)
        assert budget < self.total, f"{budget} multiprocessors to communicate leave none of {self.total} to compute"
        return budget

    @contextmanager
    def shared_out(self) -> Iterator[None]:
        """For a run or a capture of microbatches."""
        self.comm, self.compute = self.budget, self.total - self.budget
        try:
            yield
        finally:
            self.restore()

    def restore(self) -> None:
        self.comm = self.compute = self.total

    def check(self, microbatched: bool) -> None:
        """Before an all-to-all, and the expert that follows it. Raises TooFewSMs if one of the two shares is wrong, or
        microbatches communicate on more multiprocessors than the all-to-all has buffers for.
        """
        comm = self.budget if microbatched else self.total
        if self.comm != comm:
            raise TooFewSMs(f"an all-to-all was set up for {comm} multiprocessors and has {self.comm} (4.10)")
        if microbatched and comm > self.most:
            raise TooFewSMs(f"an all-to-all can use {self.most} multiprocessors and has {comm} (4.10)")
        compute = self.total - comm if microbatched else self.total
        if self.compute != compute:
            raise TooFewSMs(f"an expert was set up for {compute} multiprocessors and has {self.compute} (4.10)")
