"""The reductions: the numpy function of each, its name in torch, and the element types that it takes.

    REDUCTIONS["max"].apply(np.array([1, 5]), np.array([2, 3]))         # [2, 5]
    reduction_name("avg", "int32")                                      # ValueError: ... has no avg of int32

gloo and NCCL reduce only the element types of `NUMBERS`. An average needs floating-point numbers, and bitwise
reductions need integers. NCCL has no bitwise reduction, so `real` gathers all inputs and reduces them on each member.
Booleans are reduced by "or" (sum, max, bor), "and" (prod, min, band) and "differs" (bxor).

To add a reduction, add a name to `dpsim.contract.ops.ReduceOp` and a line here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpsim.contract.ops import ReduceOp


class Reduction(NamedTuple):
    """A numpy function of two arrays (a ufunc, which can also reduce one array), its name in `torch.distributed`, and
    the element types that it takes.
    """

    apply: Any
    torch: str
    dtypes: tuple[str, ...]


FLOATS = ("float16", "bfloat16", "float32", "float64")
WHOLE = ("bool", "int8", "uint8", "int32", "int64")
NUMBERS = (*WHOLE, *FLOATS)

REDUCTIONS: dict[ReduceOp, Reduction] = {
    "sum": Reduction(np.add, "SUM", NUMBERS),
    "max": Reduction(np.maximum, "MAX", NUMBERS),
    "min": Reduction(np.minimum, "MIN", NUMBERS),
    "prod": Reduction(np.multiply, "PRODUCT", NUMBERS),
    "avg": Reduction(np.add, "AVG", FLOATS),
    "band": Reduction(np.bitwise_and, "BAND", WHOLE),
    "bor": Reduction(np.bitwise_or, "BOR", WHOLE),
    "bxor": Reduction(np.bitwise_xor, "BXOR", WHOLE),
}
"""The reductions by name. An average is the sum, divided by the number of members."""

BITWISE = "band", "bor", "bxor"


def reduction_of(name: str | None) -> Reduction:
    """Returns the reduction with that name; the sum for None. Raises KeyError for an unknown name."""
    return REDUCTIONS[name or "sum"]  # type: ignore[index]  # any text may come


def reduction_name(op: Any, dtype: str) -> str:
    """Returns the name of a reduction, after a check that it takes elements of that type. Raises ValueError if not."""
    if op not in REDUCTIONS:
        raise ValueError(f"the reduction {op!r} is none of {', '.join(REDUCTIONS)}")
    dtypes = REDUCTIONS[op].dtypes
    if dtype not in dtypes:
        raise ValueError(f"no library has the reduction {op} of {dtype}; it takes {', '.join(dtypes)}")
    return str(op)
