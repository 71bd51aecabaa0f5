"""Helpers of kernels that work on numpy and torch alike: host values as arrays, ranges, and a scatter.

Each function takes its library, numpy or torch, and its device from an array that the caller passes:

    >>> import numpy as np
    >>> of_host(np.zeros(1), (4, 2)), count(np.zeros(1), 3)
    (array([4, 2]), array([0, 1, 2]))
    >>> hits_of(np.array([2, -1]), 3).tolist()
    [[0, 0], [0, 0], [1, 0]]

The arrays of a kernel have a handful of elements, so the search for the library takes as long as the arithmetic.
Therefore the module caches the library of each type. It also caches small numpy arrays, because thousands of small runs
need the same ones.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import numpy as np
from array_api_compat import device as device_of


def namespace(array: Any) -> Any:
    """The array API namespace of the array's library."""
    return _namespace_of(type(array).__module__.partition(".")[0])


@cache
def _namespace_of(library: str) -> Any:
    """A `functools.cache`, because kernels must not use a dictionary of the module."""
    return import_module(f"array_api_compat.{library}")


def of_host(like: Any, values: tuple[int, ...]) -> Any:
    """Host values as int64 on the device of `like`. The caller must not write to it.

    On a GPU from ranges. A copy of pageable memory would block the host until the stream is done, which may wait for a
    peer. CUDA rejects such a copy in a capture.
    """
    if isinstance(like, np.ndarray):
        return _kept(values)
    xp, device = namespace(like), device_of(like)
    if getattr(device, "type", "cpu") == "cpu":
        return xp.asarray(values, dtype=xp.int64, device=device)
    return counted(xp, device, values)


def counted(xp: Any, device: Any, values: tuple[int, ...]) -> Any:
    """int64 of shape (len(values),), from ranges: a launch for each, and one to concatenate them."""
    ranges = [xp.arange(first, stop, step, dtype=xp.int64, device=device) for first, stop, step in ranges_of(values)]
    return ranges[0] if len(ranges) == 1 else xp.concat(ranges)


def count(like: Any, stop: int) -> Any:
    """The numbers 0 to stop - 1 as int64 on the device of `like`. The caller must not write to the array."""
    if isinstance(like, np.ndarray):
        return _kept(_first(stop))
    xp = namespace(like)
    return xp.arange(stop, dtype=xp.int64, device=device_of(like))


def ascending(like: Any, first: int, stop: int) -> Any:
    """The numbers `first` to stop - 1, with the dtype and on the device of `like`."""
    if isinstance(like, np.ndarray):
        return np.arange(first, stop, dtype=like.dtype)
    return namespace(like).arange(first, stop, dtype=like.dtype, device=device_of(like))


def hits_of(mapping: Any, slots: int) -> Any:
    """int64 (slots, rows): 1 where the mapping assigns the row to the slot, else 0; a row of -1 is dropped.

    A product with the rows' values, summed over the rows, scatters the values to the slots.
    """
    xp = namespace(mapping)
    return xp.astype(count(mapping, slots)[:, None] == mapping[None, :], xp.int64)


def add(table: Any, hits: Any, values: Any) -> None:
    """Add the values of the rows to their slots in `table`. `hits`: from `hits_of`."""
    table[:] = table + namespace(table).sum(hits * values[None, :], axis=1)


@lru_cache(maxsize=4096)
def ranges_of(values: tuple[int, ...]) -> tuple[tuple[int, int, int], ...]:
    """Splits values into ranges that yield them one after another. Each range is start, stop and step, as arange takes
    them.

        >>> ranges_of((4, 5, 6, 2, 2)), ranges_of(())
        (((4, 7, 1), (2, 3, 1), (2, 3, 1)), ((0, 0, 1),))
        >>> ranges_of((9, 7, 5, 8))
        ((9, 3, -2), (8, 9, 1))
    """
    found: list[tuple[int, int, int]] = []
    place = 0
    while place < len(values):
        first, end = values[place], place + 1
        step = values[end] - first if end < len(values) else 0
        while step and end < len(values) and values[end] == values[end - 1] + step:
            end += 1
        found.append((first, first + (end - place) * step, step) if step else (first, first + 1, 1))
        place = end
    return tuple(found) or ((0, 0, 1),)


@lru_cache(maxsize=4096)
def _kept(values: tuple[int, ...]) -> Any:
    array = np.asarray(values, dtype=np.int64)
    array.setflags(write=False)
    return array


@lru_cache(maxsize=256)
def _first(stop: int) -> tuple[int, ...]:
    return tuple(range(stop))
