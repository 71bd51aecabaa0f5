"""Translates a call of torch into a call of a dpsim communicator, and its result into the bytes that the rank receives.

    lowered = lower(call, block, members, own)
    lowered.name, lowered.array, lowered.more       # the method of the communicator, and its arguments
    lowered.blocks(result)                          # the bytes for the rank

Each call of torch on a group becomes the call of dpsim with the same name, element type and reduction. In a scatter
only the root sends elements. dpsim requires an array from every member, so the other members pass zeros, which no rank
reads.
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


class TorchCall(NamedTuple):
    """A call of a rank. `root`, `peer`: global ranks. `elements`: how many the rank sends; for a scatter the count at
    the root, for a recv its own. `sent`, `received`: elements to and from each member in an all_to_all.
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
    """A communicator's call. `elements`, `dtype`: of its result, which `blocks` turns into bytes."""

    name: str
    array: Array
    more: dict[str, Any]
    elements: int
    dtype: DType
    blocks: Callable[[Array], list[bytes]]


def lower(call: TorchCall, block: bytes, members: Sequence[int], own: int) -> Lowered:
    """Translates a call for the member with global rank `own`. `block`: its elements as bytes. Raises ValueError for a
    length that does not fit.
    """
    array = np.frombuffer(block, numpy_dtype(call.dtype)).copy()
    size, mine = len(members), own == call.root
    if call.name == "scatter" and not mine:
        array = np.zeros(call.elements, array.dtype)
    arguments: dict[str, Any] = {
        "root": call.root,
        "op": REDUCTIONS.get(call.reduce),
        "to": call.peer,
        "source": call.peer,
    }
    arguments |= {"source_sizes": call.sent, "output_sizes": call.received}
    more = {name: arguments[name] for name in _MORE[call.name]}
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


def _block(result: Array) -> list[bytes]:
    return [result.tobytes()]
