"""Floating-point results that depend on the order of terms: a maximum with a NaN or with both zeros, and a sum.

    order_matters([x, y, z])        # whether x + y + z, y + z + x, ..., z + y + x and the exact sum differ anywhere
    has_nan(x)
    minus_zeros([x, y, z], "max")   # for each term, whether the sign of a zero in the maximum may depend on its -0.0

The contract does not define the maximum of a NaN and a number. numpy returns NaN; gloo compares the two, so their order
decides; NCCL returns what the GPU returns. Nor does it define which zero the maximum of 0.0 and -0.0 is, because the
two are equal: numpy and gloo return different ones. A sum of three or more terms is rounded after each term, and each
library adds in a different order. For example, a ring algorithm begins each part of the array at another rank.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpsim.contract.collectives import reductions
from dpsim.contract.collectives.sent import reduced
from dpsim.contract.dtypes import as_bfloat16, as_float32
from dpsim.contract.interface import HostArray

FLOATS = frozenset(reductions.FLOATS)
"""The floating-point types that the contract reduces."""

COMPARES = frozenset({"max", "min"})
"""The reductions that compare numbers."""


def has_nan(array: HostArray) -> bool:
    """Whether the array contains a NaN."""
    if array.dtype.kind == "V":
        array = as_float32(array)
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def minus_zeros(terms: Sequence[HostArray], how: str) -> list[bool]:
    """Returns for each term whether it has -0.0 where another term has 0.0 and the maximum or minimum is a zero.

    >>> zero, one = np.zeros(1, np.float32), np.ones(1, np.float32)
    >>> minus_zeros([zero, -zero], "max"), minus_zeros([zero, -zero, one], "max"), minus_zeros([-zero, -zero], "max")
    ([False, True], [False, False, False], [False, False])
    """
    numbers = [as_float32(term) if term.dtype.kind == "V" else term for term in terms]
    zeros = [number == 0 for number in numbers]
    if len({len(number) for number in numbers}) > 1 or not any(zero.any() for zero in zeros):
        return [False] * len(terms)
    minus = [zero & np.signbit(number) for zero, number in zip(zeros, numbers, strict=True)]
    plus = np.logical_or.reduce([zero & ~np.signbit(number) for zero, number in zip(zeros, numbers, strict=True)])
    mixed = plus & (getattr(np, f"{how}imum").reduce(numbers) == 0)
    return [bool((zero & mixed).any()) for zero in minus]


def order_matters(terms: Sequence[HostArray], how: str = "sum") -> bool:
    """Whether the sum or product of these arrays depends on the order of its terms. Zeros of either sign are equal, and
    so are two NaNs.

    >>> ones, large = np.ones(1, np.float32), np.full(1, 2.0**24, np.float32)
    >>> order_matters([ones, ones, large]), order_matters([ones, ones, ones]), order_matters([large, ones])
    (True, False, False)
    """
    if len(terms) < 3 or len({(len(term), term.dtype) for term in terms}) > 1:  # the sum of two terms has one order
        return False
    with np.errstate(all="ignore"):
        forwards = _in_order(terms, how)
        orders = [terms[::-1], *([*terms[first:], *terms[:first]] for first in range(1, len(terms)))]
        if not all(np.array_equal(forwards, _in_order(order, how), equal_nan=True) for order in orders):
            return True
        if how == "prod":
            return False
        halves = terms[0].dtype.kind == "V"
        if halves:
            terms = [as_float32(term) for term in terms]
        exact = np.array([_exact(each) for each in zip(*[term.tolist() for term in terms], strict=True)])
        nearest = as_float32(as_bfloat16(exact)) if halves else exact.astype(forwards.dtype)
        return not np.array_equal(forwards, nearest, equal_nan=True)


def _in_order(terms: Sequence[HostArray], how: str) -> HostArray:
    if terms[0].dtype.kind == "V":
        return as_float32(reduced(how, terms))
    total = np.array(terms[0])
    for term in terms[1:]:
        if how == "prod":
            total *= term
        else:
            total += term
    return total


def _exact(terms: Sequence[float]) -> float:
    try:
        return math.fsum(terms)
    except ValueError:  # infinity minus infinity
        return math.nan
