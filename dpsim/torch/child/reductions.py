"""Reductions that a rank computes itself, from what all members brought: those that the contract lacks.

    folded("product", parts, torch.bfloat16)

dpsim answers with the elements of all members where it cannot reduce them (`dpsim.torch.lowered`). The order of the
terms is that of the ranks, so every member computes the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from dpsim.torch.child.uncovered import NotCovered

_R = dist.ReduceOp
NAMES: dict[Any, str] = {
    _R.SUM: "sum",
    _R.AVG: "avg",
    _R.PRODUCT: "product",
    _R.MAX: "max",
    _R.MIN: "min",
    _R.BAND: "band",
    _R.BOR: "bor",
    _R.BXOR: "bxor",
}

_FOLDS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda rows: rows.sum(0),
    "avg": lambda rows: rows.sum(0) / len(rows),
    "product": lambda rows: rows.prod(0),
    "max": lambda rows: rows.amax(0),
    "min": lambda rows: rows.amin(0),
    "band": lambda rows: functools.reduce(torch.bitwise_and, rows),
    "bor": lambda rows: functools.reduce(torch.bitwise_or, rows),
    "bxor": lambda rows: functools.reduce(torch.bitwise_xor, rows),
}


def name_of(op: Any, call: str) -> str:
    """The name of a reduction of torch, however it is wrapped. Raises NotCovered."""
    op = getattr(op, "op", op)
    for known, name in NAMES.items():
        if op == known:
            return name
    raise NotCovered(f"{call} with {op}")


def folded(name: str, parts: Sequence[Any], dtype: Any) -> Any:
    """The reduction of flat tensors of equal length."""
    rows = torch.stack(list(parts))
    if name in ("sum", "avg", "product") and dtype in (torch.float16, torch.bfloat16):
        rows = rows.float()
    if dtype is torch.bool and name in ("sum", "max", "bor"):
        return rows.any(0)
    if dtype is torch.bool and name in ("product", "min", "band"):
        return rows.all(0)
    return _FOLDS[name](rows).to(dtype)
