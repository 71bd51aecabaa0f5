"""What the order of terms does to floating-point numbers: a NaN that is lost, and a sum that is another one.

    order_matters([x, y, z])        # whether x + y + z, y + z + x, ..., z + y + x and the exact sum differ anywhere
    has_nan(x)

numpy gives NaN as the maximum of a NaN and a number. gloo compares, so it gives the NaN or the number, by the order in
which they come; NCCL does as the GPU does. So such a maximum is undefined. A sum of three terms or more is rounded
after each of them, and each library adds in its own order. A ring begins each part of the array at another rank.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpsim.contract.interface import HostArray

FLOATS = frozenset({"float32"})
"""The floating-point types of the contract."""

COMPARES = frozenset({"max", "min"})
"""The reductions that compare."""


def has_nan(array: HostArray) -> bool:
    """Whether a term is no number."""
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def order_matters(terms: Sequence[HostArray]) -> bool:
    """Whether the sum of these arrays depends on the order of its terms. Zeros of either sign are equal, and so are two
    that are no numbers.

    >>> ones, large = np.ones(1, np.float32), np.full(1, 2.0**24, np.float32)
    >>> order_matters([ones, ones, large]), order_matters([ones, ones, ones]), order_matters([large, ones])
    (True, False, False)
    """
    if len(terms) < 3 or len({(len(term), term.dtype) for term in terms}) > 1:  # the sum of two has no order
        return False
    with np.errstate(all="ignore"):
        forwards = _sum(terms)
        orders = [terms[::-1], *([*terms[first:], *terms[:first]] for first in range(1, len(terms)))]
        if not all(np.array_equal(forwards, _sum(order), equal_nan=True) for order in orders):
            return True
        exact = np.array([_exact(each) for each in zip(*[term.tolist() for term in terms], strict=True)])
        return not np.array_equal(forwards, exact.astype(forwards.dtype), equal_nan=True)


def _sum(terms: Sequence[HostArray]) -> HostArray:
    total = np.array(terms[0])
    for term in terms[1:]:
        total += term
    return total


def _exact(terms: Sequence[float]) -> float:
    try:
        return math.fsum(terms)
    except ValueError:  # infinity less infinity
        return math.nan
