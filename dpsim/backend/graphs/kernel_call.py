"""A kernel with what it is called with: what a launch puts on a stream, on every backend.

A call names buffers, not their memory, so it may be issued again later, when the buffers hold something else.

A kernel is a plain function, and it depends on nothing but `reads`, `writes` and `args`. Other callables may hold state
that the program changes before the stream runs the kernel. Examples are a partial function, a method (also a built-in
one, of a list), an object, and a list as a default. A function of an array library is no kernel either, because it
returns its result.

The globals that a kernel reads are in `dpsim.backend.graphs.kernel_globals`.

A kernel uses only the arrays that its launch names, on every backend. It may not write an array of `reads`, even if
`writes` names the same buffer. It returns nothing. It keeps no reference to its arrays, since the program might use
them later without a record. In the simulation the first calls of a kernel get new arrays on the same memory, and the
simulation counts the references to them (`OnTrial`).
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from sys import getrefcount
from types import CodeType, FunctionType
from typing import Any

from numpy import asarray, ndarray

from dpsim.backend.graphs.kernel_globals import KernelRefused, check_globals
from dpsim.backend.journal.call_site import place_in
from dpsim.backend.journal.own_raise import breaks_off_rank
from dpsim.backend.journal.plain import check_plain, typed
from dpsim.contract.interface import Buffer, Frozen, Kernel


class KernelCall:
    """`address`: rank, site and ordinal of the launch. `reads` come first among the kernel's arguments, then `writes`,
    then `args`. `cost`: in ns, where the program says it.
    """

    __slots__ = ("address", "args", "cost", "kernel", "reads", "writes")  # made in half the time of a NamedTuple

    def __init__(
        self,
        address: tuple[int, str, int],
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

    def run(self, reads: Sequence[Any], writes: Iterable[Any], written: Callable[[Any], bool] | None = None) -> None:
        """Call the kernel; `reads` and `writes` are the arrays of both. Raises KernelError for whatever it raises.

        `written`: whether an array of `reads` was written; where the library refuses that by itself it is left out.
        """
        try:
            result = self.kernel(*reads, *writes, *self.args)
            if result is not None:
                refuse_result(result)
            if written is not None and any(map(written, reads)):
                raise WroteWhatItReads
        except BaseException as error:
            if not breaks_off_rank(error):
                raise
            raise KernelError.of("rank {} {}[{}]".format(*self.address), self.kernel, error) from error


def check_kernel(kernel: Any, site: str) -> None:
    """Raise TypeError unless the kernel is a plain function that reads no later state. A closure reads later state, and
    so may a default that is not plain data.
    """
    if not callable(kernel):
        raise TypeError(f"{site}: the kernel is {typed(kernel)}; a function is needed, as launch(site, kernel, ...)")
    if type(kernel) is not FunctionType:
        raise TypeError(
            f"{site}: the kernel is {typed(kernel)}, which may hold what changes before it runs; write a plain "
            "function, and pass the values in args"
        )
    if kernel.__closure__:
        raise TypeError(
            f"{site}: the kernel {kernel.__qualname__} is a closure; it would read its variables when it runs, "
            "not as they are now. Pass the values in args"
        )
    defaults = (*(kernel.__defaults__ or ()), *(kernel.__kwdefaults__ or {}).values())
    check_plain(defaults, f"a default of the kernel {kernel.__qualname__}", site, compared=False)
    key = kernel.__code__, kernel.__module__
    if key not in _READ:
        try:
            check_globals(kernel)
        except KernelRefused as refused:
            raise TypeError(f"{site}: {refused}") from None
        _remember(_READ, key)


KNOWN: set[Kernel] = set()
"""Kernels that were checked, and have kept no array in their first calls. A launch checks all others."""

_READ: set[tuple[CodeType, str]] = set()
"""Code whose globals were checked, with the module's: a kernel that is defined within `run` is a new one in each."""

_CALLS: dict[Kernel, int] = {}
TRIALS = 4


class OnTrial:
    """A kernel in its first calls. Raises KeptArray for one that keeps an array of numpy, or a part of one."""

    __slots__ = ("kernel",)

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def __call__(self, *args: Any) -> Any:
        given = [asarray(value.data) if type(value) is ndarray else value for value in args]
        before = [*map(_references, given)]
        result: Any = self.kernel(*given)
        if result is not None:
            return result
        if before != [*map(_references, given)]:
            gc.collect()  # a cycle holds what nothing can reach
            if before != [*map(_references, given)]:
                raise KeptArray
        calls = _CALLS.pop(self.kernel, 0) + 1
        if calls < TRIALS:
            _remember(_CALLS, self.kernel)
            _CALLS[self.kernel] = calls
        else:
            _remember(KNOWN, self.kernel)
        return None


def _references(value: Any) -> int:
    """How many references there are to an array: its parts refer to it as well, for it lies on no other array."""
    return getrefcount(value) if type(value) is ndarray else 0


def _remember(known: set[Any] | dict[Any, int], key: Any) -> None:
    """Put it there; what is made anew in each run does not pile up."""
    if len(known) >= 4096:
        known.clear()
    if isinstance(known, set):
        known.add(key)


class KernelError(RuntimeError):
    """A kernel raised, perhaps long after its launch; the message has the address of the launch."""

    @staticmethod
    def of(address: str, kernel: Kernel, error: BaseException) -> KernelError:
        kernel = kernel.kernel if isinstance(kernel, OnTrial) else kernel
        said = f"{type(error).__name__}: {error}"
        if isinstance(error, WroteWhatItReads) or (isinstance(error, ValueError) and "read-only" in str(error)):
            said = f"it writes an array that it was given to read{_line(kernel)}; name the buffer in writes"
        elif isinstance(error, GaveResult):
            said = f"it returns {error}{_line(kernel)}; a kernel writes its results to the arrays of writes"
        elif isinstance(error, KeptArray):
            said = (
                f"it keeps an array that it was given{_line(kernel)}; arrays belong to the machine once it has returned"
            )
        name = getattr(kernel, "__qualname__", None) or type(kernel).__qualname__
        return KernelError(f"kernel {name} of {address}: {said}")


class WroteWhatItReads(Exception):
    """A kernel wrote an array of its `reads`. A library with read-only arrays raises its own error instead."""


class GaveResult(Exception):
    """A kernel returned something."""


class KeptArray(Exception):
    """A kernel keeps an array beyond its call."""


def refuse_result(result: Any) -> None:
    """Raise GaveResult unless a kernel returned nothing."""
    if result is not None:
        raise GaveResult(f"something of type {type(result).__name__}")


def _line(kernel: Kernel) -> str:
    """Where the kernel stands in the source, for errors that are seen when it has returned."""
    code = getattr(kernel, "__code__", None)
    return "" if code is None else f" ({place_in(kernel.__module__, code, code.co_firstlineno)})"
