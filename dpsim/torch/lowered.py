"""A call of torch as a call of the contract: which one it is, with what elements, and how its result becomes a block.

    lowered = lower(call, block, members, own)
    lowered.name, lowered.array, lowered.more       # what a communicator is called with
    lowered.blocks(result)                          # what the rank gets

Each call of torch on a group is the one of the contract with the same name, element type and reduction. A member of a
scatter that is no root has no elements to bring, so it brings zeros, of which nothing is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpsim.contract.dtypes import numpy_dtype
from dpsim.contract.ops import DType, ReduceOp

Array = NDArray[Any]

REDUCTIONS: dict[str, ReduceOp] = {
    "sum": "sum",
    "avg": "avg",
    "product": "prod",
    "max": "max",
    "min": "min",
    "band": "band",
    "bor": "bor",
    "bxor": "bxor",
}
"""The contract's name of a reduction, by torch's."""


class TorchCall(NamedTuple):
    """What a rank asks for. `root`, `peer`: global ranks. `sent`, `received`: elements to and from each member of an
    all_to_all. `elements`: those that the rank brings; of a scatter those that the root brings, and of a recv those
    that it gets.
    """

    name: str
    site: str
    dtype: DType = "int32"
    elements: int = 0
    reduce: str = ""
    root: int | None = None
    peer: int | None = None
    tag: int = 0
    sent: tuple[int, ...] = ()
    received: tuple[int, ...] = ()


class Lowered(NamedTuple):
    """A call of a communicator. `elements`: of its result, `dtype`: their type. `blocks`: the result as bytes."""

    name: str
    array: Array
    more: dict[str, Any]
    elements: int
    dtype: DType
    blocks: Callable[[Array], list[bytes]]


def lower(call: TorchCall, block: bytes, members: Sequence[int], own: int) -> Lowered:
    """For the member with global rank `own`. ValueError for a block that is not what the call says."""
    array = np.frombuffer(block, numpy_dtype(call.dtype)).copy()
    size, mine = len(members), own == call.root
    if call.name == "scatter" and not mine:
        array = np.zeros(call.elements, array.dtype)
    said: dict[str, Any] = {"root": call.root, "op": REDUCTIONS.get(call.reduce), "to": call.peer, "source": call.peer}
    said |= {"source_sizes": call.sent, "output_sizes": call.received}
    more = {name: said[name] for name in _MORE[call.name]}
    elements = {
        "barrier": 0,
        "send": 0,
        "all_gather": call.elements * size,
        "gather": call.elements * size if mine else 0,
        "scatter": call.elements // size,
        "reduce_scatter": call.elements // size,
        "all_to_all": sum(call.received),
    }.get(call.name, call.elements)
    return Lowered(call.name, array, more, elements, call.dtype, _block)


_MORE: dict[str, tuple[str, ...]] = {
    "barrier": (),
    "all_reduce": ("op",),
    "reduce": ("root", "op"),
    "reduce_scatter": ("op",),
    "broadcast": ("root",),
    "all_gather": (),
    "gather": ("root",),
    "scatter": ("root",),
    "all_to_all": ("source_sizes", "output_sizes"),
    "send": ("to",),
    "recv": ("source",),
}
"""What a communicator is called with besides the elements."""


def _block(result: Array) -> list[bytes]:
    return [result.tobytes()]
