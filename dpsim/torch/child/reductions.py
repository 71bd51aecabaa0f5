"""The names of torch's reductions, and the errors that torch raises for element types which it does not reduce.

name_of(dist.ReduceOp.PRODUCT, torch.bfloat16, "all_reduce")        # "product"
name_of(dist.ReduceOp.BAND, torch.float32, "all_reduce")            # RuntimeError, as torch raises it
"""

from __future__ import annotations

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

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
WHOLE = (torch.bool, torch.int8, torch.uint8, torch.int32, torch.int64)


def name_of(op: Any, dtype: Any, call: str) -> str:
    """Returns the name of a reduction. Raises RuntimeError where gloo does, or NotCovered."""
    op = getattr(op, "op", op)
    name = next((name for known, name in NAMES.items() if op == known), None)
    if name is None:
        raise NotCovered(f"{call} with {op}")
    if dtype not in FLOATS + WHOLE:
        raise RuntimeError(f"{call} with {op}: Invalid scalar type: {dtype}")
    if name in ("band", "bor", "bxor") and dtype in FLOATS:
        raise RuntimeError(f"Cannot use ReduceOp.{name.upper()} with non-integral dtype")
    if name == "avg" and dtype in WHOLE:  # gloo raises, but NCCL divides
        raise NotCovered(f"{call} with {op} of {dtype}")
    return name
