"""The reductions: how numpy computes each, and what torch calls it.

A reduction more is a word in `dpsim.contract.ops.ReduceOp` and a line here.

    REDUCTIONS["max"].apply(np.array([1, 5]), np.array([2, 3]))         # [2, 5]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpsim.contract.ops import ReduceOp


class Reduction(NamedTuple):
    """A function of two arrays that numpy can also fold over one (a ufunc), and its name in `torch.distributed`."""

    apply: Any
    torch: str


REDUCTIONS: dict[ReduceOp, Reduction] = {
    "sum": Reduction(np.add, "SUM"),
    "max": Reduction(np.maximum, "MAX"),
    "min": Reduction(np.minimum, "MIN"),
}


def reduction_of(name: str | None) -> Reduction:
    """The reduction of that name; the sum where a call has none. KeyError for any other."""
    return REDUCTIONS[name or "sum"]  # type: ignore[index]  # any text may come


def reduction_name(op: Any) -> str:
    """A reduction of the contract. Raises ValueError for any other."""
    if op not in REDUCTIONS:
        raise ValueError(f"the reduction {op!r} is none of {', '.join(REDUCTIONS)}")
    return str(op)
