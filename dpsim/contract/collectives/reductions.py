"""The reductions: how numpy computes each, what torch calls it, and of which types.

    REDUCTIONS["max"].apply(np.array([1, 5]), np.array([2, 3]))         # [2, 5]
    reduction_name("avg", "int32")                                      # ValueError: ... has no avg of int32

gloo and NCCL reduce the types of `NUMBERS` and no other ones; an average is one of floating-point numbers, and bits are
those of integers. NCCL has no bitwise reduction, so `real` gathers what all bring and reduces it on each member. True
and False are reduced by "or" (sum, max, bor), "and" (prod, min, band) and "differs" (bxor).

A reduction more is a word in `dpsim.contract.ops.ReduceOp` and a line here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpsim.contract.ops import ReduceOp


class Reduction(NamedTuple):
    """A function of two arrays that numpy can also fold over one (a ufunc), its name in `torch.distributed`, and the
    element types that it takes.
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
"""An average is the sum, divided by the number of members."""

BITWISE = "band", "bor", "bxor"


def reduction_of(name: str | None) -> Reduction:
    """The reduction of that name; the sum where a call has none. KeyError for any other."""
    return REDUCTIONS[name or "sum"]  # type: ignore[index]  # any text may come


def reduction_name(op: Any, dtype: str) -> str:
    """A reduction of the contract, of elements of that type. Raises ValueError for any other."""
    if op not in REDUCTIONS:
        raise ValueError(f"the reduction {op!r} is none of {', '.join(REDUCTIONS)}")
    dtypes = REDUCTIONS[op].dtypes
    if dtype not in dtypes:
        raise ValueError(f"no library has the reduction {op} of {dtype}; it takes {', '.join(dtypes)}")
    return str(op)
