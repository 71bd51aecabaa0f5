"""The element types of the contract, as numpy types.

    numpy_dtype("float16")          # numpy's own type
    numpy_dtype("bfloat16")         # a record type with one 16-bit field, named "bfloat16"
    as_bfloat16(np.ones(4))         # an array of that type; `as_float32` converts back

numpy has no bfloat16, no float8 and no complex32. Host arrays of these element types have a numpy record type with one
field. So each type is distinct, and programs can send, receive and compare it. Device memory contains the *bits* of the
elements: a kernel gets an integer array of the same width, on every backend.

Of the element types that numpy lacks, the contract reduces only bfloat16. Each step of the reduction computes in
float32 and rounds to the nearest bfloat16, ties to even, as torch does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsim.contract.interface import HostArray
from dpsim.contract.ops import DTYPES

_LACKED = ("bfloat16", "complex32", *[name for name in DTYPES if name.startswith("float8")])
"""The element types that numpy lacks."""

CARRIERS: dict[str, str] = {name: {1: "uint8", 2: "int16", 4: "int32"}[DTYPES[name]] for name in _LACKED}
"""For each element type that numpy lacks: the integer type of the same width, by name."""

NUMPY: dict[str, np.dtype[Any]] = {
    name: np.dtype([(name, CARRIERS[name])]) if name in CARRIERS else np.dtype(name) for name in DTYPES
}
"""The numpy type of each element type, by name."""

_BFLOAT16 = NUMPY["bfloat16"]
_HALF = 16  # a bfloat16 is the upper half of a float32
_NAN = 0x7FC0  # the value to which torch rounds every NaN


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Returns the numpy type of host arrays with that element type. Raises ValueError for a name that the contract does
    not have.
    """
    try:
        return NUMPY[name]
    except KeyError:
        raise ValueError(f"dtype {name!r} is none of {', '.join(NUMPY)}") from None


def bits(array: HostArray) -> HostArray:
    """Returns the same memory as a kernel sees it: integers if numpy lacks the type, else the array itself."""
    names = array.dtype.names
    return array if names is None else array.view(CARRIERS[names[0]])


def as_bfloat16(array: HostArray) -> HostArray:
    """Returns the nearest bfloat16 numbers, ties to even. Any shape."""
    wide = np.ascontiguousarray(array, np.float32)
    raw = wide.view(np.uint32)
    upper = (raw + (0x7FFF + ((raw >> _HALF) & 1))) >> _HALF
    upper = np.where(np.isnan(wide), _NAN, upper)
    return upper.astype(np.uint16).view(_BFLOAT16).reshape(array.shape)


def as_float32(array: HostArray) -> HostArray:
    """Returns bfloat16 numbers as float32, without loss."""
    raw = np.ascontiguousarray(array).view(np.uint16).astype(np.uint32) << _HALF
    return raw.view(np.float32).reshape(array.shape)


def converted(array: HostArray, dtype: np.dtype[Any]) -> HostArray:
    """Returns the numbers in another element type. Both types have to be ones that the contract reduces."""
    if array.dtype == _BFLOAT16:
        array = as_float32(array)
    return as_bfloat16(array) if dtype == _BFLOAT16 else array.astype(dtype)
