"""The element types of the contract, as numpy has them.

    numpy_dtype("float16")          # numpy's own
    numpy_dtype("bfloat16")         # a record of one field, which is named so: 16 bits
    as_bfloat16(np.ones(4))         # an array of that type; `as_float32` is the way back

numpy has no bfloat16, no float8 and no complex32. Host arrays of these types are records of one field, so each has its
own type of numpy, and can be sent, received and compared. Memory of a device holds their *bits*: a kernel gets an
integer array of the same width, on every backend. Of these types the contract reduces bfloat16 alone. Each step of the
reduction is made in float32 and rounded to the nearest bfloat16, ties to even, as in torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsim.contract.interface import HostArray
from dpsim.contract.ops import DTYPES

_LACKED = ("bfloat16", "complex32", *[name for name in DTYPES if name.startswith("float8")])
"""The types that numpy lacks."""

CARRIERS: dict[str, str] = {name: {1: "uint8", 2: "int16", 4: "int32"}[DTYPES[name]] for name in _LACKED}
"""The type whose bits stand for a type that numpy lacks, by its name."""

NUMPY: dict[str, np.dtype[Any]] = {
    name: np.dtype([(name, CARRIERS[name])]) if name in CARRIERS else np.dtype(name) for name in DTYPES
}
"""All types, by name."""

_BFLOAT16 = NUMPY["bfloat16"]
_HALF = 16  # a bfloat16 is the upper half of a float32
_NAN = 0x7FC0  # what torch rounds every NaN to


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The type of host arrays of that element type. Raises ValueError for a name that the contract does not have."""
    try:
        return NUMPY[name]
    except KeyError:
        raise ValueError(f"dtype {name!r} is none of {', '.join(NUMPY)}") from None


def bits(array: HostArray) -> HostArray:
    """The same memory as a kernel sees it: integers where numpy lacks the type, else the array itself."""
    names = array.dtype.names
    return array if names is None else array.view(CARRIERS[names[0]])


def as_bfloat16(array: HostArray) -> HostArray:
    """The nearest numbers of type bfloat16, ties to even. Any shape."""
    wide = np.ascontiguousarray(array, np.float32)
    raw = wide.view(np.uint32)
    upper = (raw + (0x7FFF + ((raw >> _HALF) & 1))) >> _HALF
    upper = np.where(np.isnan(wide), _NAN, upper)
    return upper.astype(np.uint16).view(_BFLOAT16).reshape(array.shape)


def as_float32(array: HostArray) -> HostArray:
    """Numbers of type bfloat16 as float32, which has all of them."""
    raw = np.ascontiguousarray(array).view(np.uint16).astype(np.uint32) << _HALF
    return raw.view(np.float32).reshape(array.shape)


def converted(array: HostArray, dtype: np.dtype[Any]) -> HostArray:
    """The numbers of one type in another one. Neither is a type that the contract does not reduce."""
    if array.dtype == _BFLOAT16:
        array = as_float32(array)
    return as_bfloat16(array) if dtype == _BFLOAT16 else array.astype(dtype)
