"""Streaming multiprocessors (SMs): communication kernels get a share of them while microbatches run (specification
4.10).

A communication kernel that spins until its peers arrive occupies its multiprocessors meanwhile. So while microbatches
run or a rank captures them, communication gets only `c` multiprocessors, and computing gets the others. Afterwards both
kinds may use all again, also after an exception and before a replay. Settings that change this:

    input                                    what follows
    no expert parallelism                    no all-to-all is set up; computing still leaves `c` of them free
    the all-to-all has no maximum            `c` is what the environment asks for
    the environment asks for 0               neither kind of kernel is set up
    the kernels of experts are not DeepGEMM  computing is not set up
    the platform is not CUDA                 AssertionError, with or without microbatches in a step

If a kernel was set up for another number of multiprocessors, its launch fails, as that of a cooperative kernel does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class TooFewSMs(AssertionError):
    """A kernel has another number of multiprocessors than it was set up for."""


class SMControl:
    """The multiprocessors of one rank. AssertionError: no CUDA, or none is left to compute.

    `expert_parallel`: the all-to-all has a setup. `wanted`: what the environment asks for. `most`: what the all-to-all
    can use, None without a maximum. `deep_gemm`: the experts' kernels have a setup.
    """

    total = 132
    wanted = 20
    most: int | None = 24
    cuda = True
    deep_gemm = True

    def __init__(self, expert_parallel: bool = True) -> None:
        assert self.cuda, "multiprocessors are shared out on CUDA alone; switch microbatches off"
        self.expert_parallel = expert_parallel
        self.comm = self.compute = self.total
        budget = self.budget
        assert budget < self.total, f"{budget} multiprocessors to communicate leave none of {self.total} to compute"

    @property
    def budget(self) -> int:
        """For communication while microbatches run. The maximum applies only with expert parallelism."""
        return self.wanted if self.most is None or not self.expert_parallel else min(self.wanted, self.most)

    def shares(self) -> tuple[int, int]:
        """The multiprocessors of communication and of computing while microbatches run."""
        budget = self.budget
        comm = budget if budget and self.expert_parallel else self.total
        return comm, self.total - budget if budget and self.deep_gemm else self.total

    @contextmanager
    def shared_out(self) -> Iterator[None]:
        """Set the shares while microbatches run or are captured."""
        self.comm, self.compute = self.shares()
        try:
            yield
        finally:
            self.restore()

    def restore(self) -> None:
        self.comm = self.compute = self.total

    def check(self, microbatched: bool) -> None:
        """Before an all-to-all and the expert behind it. TooFewSMs: a share is wrong, or above what it can use."""
        comm, compute = self.shares() if microbatched else (self.total, self.total)
        if self.comm != comm:
            raise TooFewSMs(f"an all-to-all was set up for {comm} multiprocessors and has {self.comm} (4.10)")
        if microbatched and self.expert_parallel and self.most is not None and self.budget > self.most:
            raise TooFewSMs(f"an all-to-all can use {self.most} multiprocessors and has {comm} (4.10)")
        if self.compute != compute:
            raise TooFewSMs(f"an expert was set up for {compute} multiprocessors and has {self.compute} (4.10)")
