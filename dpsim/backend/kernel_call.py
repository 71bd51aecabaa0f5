"""A kernel with what it is called with: what a launch puts on a stream, on every backend.

A call names buffers, not their memory, so it may be issued again later, when the buffers hold something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dpsim.interface import Buffer, Frozen, Kernel


class KernelCall:
    """`address`: of the launch, as "rank 0 fill[2]". `reads` come first among the kernel's arguments, then `writes`,
    then `args`. `cost`: in ns, where the program says it.
    """

    __slots__ = ("address", "args", "cost", "kernel", "reads", "writes")  # made in half the time of a NamedTuple

    def __init__(
        self,
        address: str,
        kernel: Kernel,
        reads: Sequence[Buffer],
        writes: Sequence[Buffer],
        args: tuple[Frozen, ...],
        cost: int | None,
    ) -> None:
        self.address = address
        self.kernel = kernel
        self.reads = reads
        self.writes = writes
        self.args = args
        self.cost = cost

    def run(self, memory: Iterable[Any]) -> None:
        """Call the kernel; `memory` is that of `reads` and `writes`. Raises KernelError for whatever it raises."""
        try:
            self.kernel(*memory, *self.args)
        except Exception as error:
            raise KernelError.of(self.address, self.kernel, error) from error


class KernelError(RuntimeError):
    """A kernel raised, perhaps long after its launch; the message has the address of the launch."""

    @staticmethod
    def of(address: str, kernel: Kernel, error: BaseException) -> KernelError:
        return KernelError(f"kernel {kernel.__qualname__} of {address}: {type(error).__name__}: {error}")
