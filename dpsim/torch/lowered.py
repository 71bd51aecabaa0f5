"""A call of torch as calls of the contract: in one place, what the contract has and what is put together.

    lowered = lower(call, block, members, own)
    lowered.name, lowered.array, lowered.more       # what a communicator is called with
    lowered.blocks(result)                          # what the rank gets

The contract has three element types and three reductions. Others travel as int32: a word that says type and reduction,
then the bytes, so members that differ there are found. A reduction that the contract lacks gathers what all bring, and
each rank computes it. Gather and scatter are an all-to-all in which only the root gets or gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpsim.contract.ops import DTYPES

Array = NDArray[Any]

WIDTHS = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "complex32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}
"""Bytes of an element, by torch's name of its type."""

REDUCED = ("sum", "max", "min")
REDUCTIONS = (*REDUCED, "avg", "product", "band", "bor", "bxor")


class TorchCall(NamedTuple):
    """What a rank asks for. `root`, `peer`: global ranks. `sent`, `received`: elements to and from each member."""

    name: str
    site: str
    dtype: str = "int32"
    elements: int = 0
    reduce: str = ""
    root: int | None = None
    peer: int | None = None
    tag: int = 0
    sent: tuple[int, ...] = ()
    received: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        return WIDTHS[self.dtype]


class Lowered(NamedTuple):
    """A call of a communicator, and how its result becomes blocks. `elements`: of that result, `dtype` its type."""

    name: str
    array: Array
    more: dict[str, Any]
    elements: int
    dtype: Any
    blocks: Callable[[Array], list[bytes]]


class Mixed(TypeError):
    """Members of one call brought elements of different types."""


def lower(call: TorchCall, block: bytes, members: Sequence[int], own: int) -> Lowered:
    """For the member with global rank `own`. ValueError for a block that is not what the call says."""
    size = len(members)
    if call.name == "barrier":
        return Lowered("barrier", np.empty(0, np.int32), {}, 0, "int32", lambda result: [])
    form = Form(call.dtype, call.reduce)
    if call.name in ("all_reduce", "reduce"):
        return _reduced(call, form, block, members, own)
    if call.name == "reduce_scatter":
        return _scattered(call, form, block, size)
    array = form.array(block)
    if call.name == "broadcast":
        return _plain("broadcast", form, array, {"root": call.root}, call.elements)
    if call.name == "all_gather":
        each = form.size(call.elements)
        join = _joined(form, [call.elements] * size)
        return Lowered("all_gather", array, {}, each * size, form.dtype, lambda result: [b"".join(join(result))])
    if call.name == "send":
        return Lowered("send", array, {"to": call.peer}, 0, "int32", lambda result: [])
    if call.name == "recv":
        return _plain("recv", form, array, {"source": call.peer}, call.elements)
    return _exchanged(call, form, block)


class Form:
    """How elements of a type travel: as they are, or as int32 behind a word."""

    def __init__(self, dtype: str, reduce: str = "") -> None:
        self.width = WIDTHS[dtype]
        self.name = dtype
        self.worded = dtype not in DTYPES or reduce not in ("", *REDUCED)
        self.dtype: Any = "int32" if self.worded else dtype
        number = REDUCTIONS.index(reduce) + 1 if reduce else 0
        self.word = 1_000 * number + list(WIDTHS).index(dtype)

    def size(self, count: int) -> int:
        """How many elements of the contract `count` elements are."""
        if not self.worded:
            return count
        return 1 + (count * self.width + 3) // 4 if count else 0

    def array(self, block: bytes) -> Array:
        """Elements as the contract has them."""
        if not self.worded:
            return np.frombuffer(block, self.dtype).copy()
        if not block:
            return np.empty(0, np.int32)
        return np.frombuffer(self.word.to_bytes(4, "little") + block + bytes(-len(block) % 4), np.int32).copy()

    def block(self, array: Array, count: int) -> bytes:
        """Elements as bytes again. Raises Mixed."""
        if not self.worded or not count:
            return array.tobytes() if count else b""
        if array.size and int(array[0]) != self.word:
            other = list(WIDTHS)[int(array[0]) % 1_000 % len(WIDTHS)]
            said = f"elements of type {other} came where {self.name} was expected"
            raise Mixed(said if other != self.name else f"a member of the call named another reduction of {self.name}")
        return array[1:].tobytes()[: count * self.width]


def _plain(name: str, form: Form, array: Array, more: dict[str, Any], count: int) -> Lowered:
    return Lowered(name, array, more, form.size(count), form.dtype, lambda result: [form.block(result, count)])


def _joined(form: Form, counts: Sequence[int]) -> Callable[[Array], list[bytes]]:
    """The blocks of several members that lie one after the other."""
    sizes = [form.size(one) for one in counts]

    def blocks(result: Array) -> list[bytes]:
        parts = np.split(result, np.cumsum(sizes)[:-1])
        return [form.block(part, count) for part, count in zip(parts, counts, strict=True)]

    return blocks


def _reduced(call: TorchCall, form: Form, block: bytes, members: Sequence[int], own: int) -> Lowered:
    array, elements = form.array(block), form.size(call.elements)
    if not form.worded:
        more: dict[str, Any] = {"op": call.reduce}
        if call.name == "reduce":
            more["root"] = call.root
        return _plain(call.name, form, array, more, call.elements)
    join = _joined(form, [call.elements] * len(members))
    if call.name == "all_reduce":
        return Lowered("all_gather", array, {}, elements * len(members), "int32", join)
    mine = own == call.root
    sizes = [elements if one == call.root else 0 for one in members]
    come = [elements if mine else 0] * len(members)
    more = {"source_sizes": sizes, "output_sizes": come}
    return Lowered("all_to_all", array, more, sum(come), "int32", join if mine else lambda result: [b""])


def _scattered(call: TorchCall, form: Form, block: bytes, size: int) -> Lowered:
    each = call.elements // size
    if not form.worded and call.reduce == "sum":
        return _plain("reduce_scatter", form, form.array(block), {}, each)
    step = len(block) // size
    pieces = [form.array(block[at * step : (at + 1) * step]) for at in range(size)]
    sizes = [form.size(each)] * size
    more = {"source_sizes": sizes, "output_sizes": sizes}
    return Lowered("all_to_all", np.concatenate(pieces), more, sum(sizes), form.dtype, _joined(form, [each] * size))


def _exchanged(call: TorchCall, form: Form, block: bytes) -> Lowered:
    """all_to_all, gather and scatter."""
    at, pieces = 0, []
    for count in call.sent:
        pieces.append(form.array(block[at : at + count * call.width]))
        at += count * call.width
    come = [form.size(one) for one in call.received]
    more = {"source_sizes": [form.size(one) for one in call.sent], "output_sizes": come}
    join = _joined(form, call.received)
    flat = np.concatenate(pieces)
    return Lowered("all_to_all", flat, more, sum(come), form.dtype, lambda result: [b"".join(join(result))])
