"""A kernel with its arguments: what a launch puts on a stream, on every backend.

A kernel call refers to buffers and not to their memory. So a graph replay can issue it again later, when the buffers
have other contents.

A kernel is a plain function, and it depends only on `reads`, `writes` and `args`. dpsim refuses other callables, such
as a method or a partial function. They may have state that the program changes before the stream runs the kernel. A
function of an array library is no kernel either, because it returns its result. `dpsim.backend.graphs.kernel_globals`
checks the globals that a kernel reads.

On every backend, a kernel uses only the arrays that its launch names. It must not write an array of `reads`, even if
`writes` contains the same buffer. It returns nothing. It keeps no reference to its arrays, since the program might use
them later without a record. To find such references, the simulation passes new arrays to the first calls of a kernel,
and counts the references to them afterwards (`OnTrial`).
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
    """`address`: rank, site and ordinal. The kernel takes `reads`, `writes`, then `args`. `cost`: ns, or None."""

    __slots__ = ("address", "args", "cost", "kernel", "reads", "writes")  # created faster than a NamedTuple

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
        """Raises KernelError for any exception. `written`: whether the kernel wrote one of `reads`, or None."""
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
    """Raises TypeError unless the kernel is a plain function that reads no later state, as a closure does."""
    if not callable(kernel):
        raise TypeError(f"{site}: the kernel is {typed(kernel)}; a function is needed, as launch(site, kernel, ...)")
    if type(kernel) is not FunctionType:
        raise TypeError(
            f"{site}: the kernel is {typed(kernel)}, which may contain data that changes before the kernel runs; "
            "write a plain function, and pass the values in args"
        )
    if kernel.__closure__:
        raise TypeError(
            f"{site}: the kernel {kernel.__qualname__} is a closure; it would read its variables when it runs, "
            "not as they are at the launch. Pass the values in args"
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
"""Kernels that passed the checks and kept no array in their first calls. A launch checks all others."""

_READ: set[tuple[CodeType, str]] = set()
"""Code whose globals passed the check. A kernel that `run` defines is new in each run, but has the same code."""

_CALLS: dict[Kernel, int] = {}
TRIALS = 4


class OnTrial:
    """A kernel in its first calls. Raises KeptArray if the kernel keeps a numpy array, or a part of one."""

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
            gc.collect()  # only an unreachable reference cycle refers to it
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
    """A view of an array refers to it as well, since the array is no view itself."""
    return getrefcount(value) if type(value) is ndarray else 0


def _remember(known: set[Any] | dict[Any, int], key: Any) -> None:
    """Adds a key to a set. It first clears a set or a dict that is full, so that neither grows without bound."""
    if len(known) >= 4096:
        known.clear()
    if isinstance(known, set):
        known.add(key)


class KernelError(RuntimeError):
    """A kernel raised, perhaps long after its launch; the message has the address of the launch."""

    @staticmethod
    def of(address: str, kernel: Kernel, error: BaseException) -> KernelError:
        kernel = kernel.kernel if isinstance(kernel, OnTrial) else kernel
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, WroteWhatItReads) or (isinstance(error, ValueError) and "read-only" in str(error)):
            reason = f"it writes an array that it was given to read{_line(kernel)}; name the buffer in writes"
        elif isinstance(error, GaveResult):
            reason = f"it returns {error}{_line(kernel)}; a kernel writes its results to the arrays of writes"
        elif isinstance(error, KeptArray):
            reason = (
                f"it keeps an array that it was given{_line(kernel)}; arrays belong to the machine once it has returned"
            )
        name = getattr(kernel, "__qualname__", None) or type(kernel).__qualname__
        return KernelError(f"kernel {name} of {address}: {reason}")


class WroteWhatItReads(Exception):
    """A kernel wrote an array of its `reads`. A library with read-only arrays raises a different error."""


class GaveResult(Exception):
    """A kernel returned something."""


class KeptArray(Exception):
    """A kernel keeps an array beyond its call."""


def refuse_result(result: Any) -> None:
    """Raises GaveResult unless a kernel returned None."""
    if result is not None:
        raise GaveResult(f"something of type {type(result).__name__}")


def _line(kernel: Kernel) -> str:
    """Returns where the kernel is in the source, for errors that dpsim finds after the kernel returned."""
    code = getattr(kernel, "__code__", None)
    return "" if code is None else f" ({place_in(kernel.__module__, code, code.co_firstlineno)})"
