"""Shared code of the parts of the conformance program: the data that ranks send, expectations, and kernels.

All ranks send *lines*: rank r has start, start + 1, ... if r is even, and start, start - 1, ... if r is odd. So no
single rank has the largest or smallest element at every position. Every rank can compute the lines of the others.

    expect("read", await buffer.read("site"), round.line(rank, 4, "int32"), "the content after all work so far")

The kernels use the array API standard, so they run on numpy and torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from array_api_compat import device as device_of

from dpsim.contract.interface import Buffer, HostArray, Rank, Stream
from dpsim.contract.ops import DType

WIDE: dict[DType, int] = {"int32": 1 << 16, "int64": 1 << 40, "float32": 1 << 8}
"""The types of lines, with a number that is added to each value. With it, a truncation of int64 to 32 bits shows, and
sums over 4,096 ranks are still exact. The part `dtypes` tests all types.
"""

SHOWN = 12
"""An error prints at most this number of elements of an array."""


class Round:
    """One round of the program on one rank."""

    def __init__(self, rank: Rank, step: int) -> None:
        self.rank = rank
        self.step = step
        self.main = rank.stream("main")
        self.host = rank.host("dp_cpu")
        self.device = rank.device("dp")

    @property
    def peers(self) -> list[int]:
        """The other members of the device group, as global ranks."""
        return [rank for rank in self.device.ranks if rank != self.rank.rank]

    def line(self, rank: int, count: int, dtype: DType) -> HostArray:
        """Returns the line of a rank in this round, with shape (count,)."""
        slope = -1 if rank % 2 else 1
        return (self._start(rank, dtype) + slope * np.arange(count)).astype(dtype)

    def put(self, count: int | tuple[int, ...], dtype: DType, stream: Stream | None = None) -> Buffer:
        """Returns device memory with this rank's line. `stream`: the stream to use, or "main" if None."""
        on = stream or self.main
        buffer = on.alloc(count, dtype, "conformance.put")
        args = self._start(self.rank.rank, dtype), -1 if self.rank.rank % 2 else 1
        on.launch("conformance.line", line, writes=[buffer], args=args)
        return buffer

    def alloc(self, count: int, dtype: DType) -> Buffer:
        """Returns uninitialized memory of the stream "main"."""
        return self.main.alloc(count, dtype, "conformance.flat")

    def _start(self, rank: int, dtype: DType) -> int:
        return WIDE[dtype] + 10 * rank + self.step


def expect(what: str, got: Any, wanted: Any, law: str) -> None:
    """Raises AssertionError, with both values and the sentence of the contract, unless the values are equal."""
    if isinstance(wanted, np.ndarray):
        same = isinstance(got, np.ndarray) and (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        if same and (got == wanted).all():
            return
        at = f" (they differ from element {int((got != wanted).reshape(-1).argmax())} on)" if same else ""
        raise AssertionError(f"{what}: expected {_show(wanted)}, got {_show(got)}{at}. The contract: {law}")
    if got != wanted:
        raise AssertionError(f"{what}: expected {wanted}, got {got}. The contract: {law}")


def refused(error: type[Exception], what: str, call: Callable[[], object]) -> None:
    """Raises AssertionError if `call` does not raise `error`."""
    try:
        call()
    except error:
        return
    law = f"it refuses this call with {error.__name__} before the call has any effect"
    raise AssertionError(f"the backend accepted {what}. The contract: {law}")


def _show(array: Any) -> str:
    if not isinstance(array, np.ndarray):
        return repr(array)
    if array.size <= SHOWN:
        return f"{array.dtype}{list(array.shape)} {array.tolist()}"
    return f"{array.dtype}{list(array.shape)} {array.reshape(-1)[:SHOWN].tolist()} ..."


# ---- kernels


def line(out: Any, start: int, slope: int) -> None:
    """A kernel that writes start, start + slope, ..., row by row."""
    xp = array_namespace(out)
    steps = xp.arange(0, math.prod(out.shape), dtype=out.dtype, device=device_of(out))
    out[...] = xp.reshape(start + slope * steps, tuple(out.shape))


def fold(flat: Any, table: Any, step: int, two: float, really: bool, how: str, nothing: None, nested: Any) -> None:
    """A kernel that reshapes, and adds its arguments: each `Frozen` type must arrive unchanged."""
    assert (really, how, nothing, nested) == (True, "add", None, (1, (2, 3)))
    xp = array_namespace(flat)
    one, (second, third) = nested
    table[:, :] = xp.reshape(flat, tuple(table.shape)) + (step + int(two) + one + second + third)


def flip(table: Any) -> None:
    """A kernel that mirrors each row in place."""
    xp = array_namespace(table)
    table[:, :] = xp.flip(table, axis=1)


def increase(buffer: Any) -> None:
    """A kernel that adds 1 in place. If it ran before an all_reduce, its 1 would count once for each rank."""
    buffer[...] = buffer + 1


def copy_to(source: Any, target: Any) -> None:
    target[...] = source


def that_remember() -> dict[str, Callable[..., None]]:
    """Kernels, each with its description, that a backend must refuse: they would read state at a later time."""
    numbers = [1]

    def closure(buffer: Any) -> None:
        buffer[:] = numbers[0]

    def with_default(buffer: Any, numbers: Any = numbers) -> None:
        buffer[:] = numbers[0]

    class Fills:
        def fill(self, buffer: Any) -> None:
            buffer[:] = numbers[0]

        __call__ = fill

    return {
        "a closure": closure,
        "a function with a list as a default": with_default,
        "a partial function": partial(with_default, numbers=numbers),
        "a bound method": Fills().fill,
        "an object that can be called": Fills(),
    }
