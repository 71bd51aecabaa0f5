"""The inputs of all members of one collective, and parts of results that several members share.

A *wire* is the flat array that one member of a collective sends. If the calls of members disagree, wires differ in
length and type; then a short wire affects only its own elements. A result never shares memory with an input, since the
machine may write it into an input's memory. Two members may share a result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpsim.contract.collectives.reductions import REDUCTIONS
from dpsim.contract.dtypes import as_bfloat16, as_float32, converted
from dpsim.contract.interface import HostArray


class Sent:
    """`wires`: the flat input of each member, in the order of the group. `calls`: the call of each member. `indices`:
    the index of each rank in the group.
    """

    indices: Mapping[int, int]
    wires: Sequence[HostArray]
    _made: dict[Any, Any]

    @property
    def calls(self) -> Sequence[tuple[Any, ...]]:
        """The calls of all members. A machine makes this list when the rules need it, which is seldom."""
        raise NotImplementedError  # each machine defines this

    def reduced(self, how: str | None) -> HostArray:
        """Returns the elementwise reduction of all wires."""
        total: HostArray | None = self._made.get(how)
        if total is None:
            dtype = self.wires[0].dtype
            if dtype.kind in "fV":
                self.floats(how)
            if how == "prod" or dtype.itemsize < 4:  # these overflow soon, and no library warns of it
                with np.errstate(all="ignore"):
                    total = self._made[how] = reduced(how, self.wires)
            else:
                total = self._made[how] = reduced(how, self.wires)
        return total

    def floats(self, how: str | None) -> None:
        """Called when a floating-point reduction is computed, whose result depends on the order of its terms. A machine
        may record this.
        """

    def gathered(self) -> HostArray:
        """Returns all wires, one after the other."""
        whole: HostArray | None = self._made.get("gathered")
        if whole is None:
            whole = self._made["gathered"] = np.concatenate(self.wires)
        return whole

    def pieces(self) -> list[list[HostArray]]:
        """Returns one list of pieces per member: its wire, cut as its own call specifies."""
        rows: list[list[HostArray]] | None = self._made.get("pieces")
        if rows is None:
            members = len(self.wires)
            pairs = zip(self.wires, self.calls, strict=True)
            rows = self._made["pieces"] = [cut(wire, call[5][:members], members) for wire, call in pairs]
        return rows


def reduced(how: str | None, wires: Sequence[HostArray]) -> HostArray:
    """Returns the elementwise reduction of wires. The longest wire is the first term; the others follow in the order of
    the group, and affect only as many elements as they have. An average is the sum, divided by the number of wires.
    Each step rounds to the element type.

    >>> reduced("max", [np.array([1, 5]), np.array([2, 3, 4])])
    array([2, 5, 4])
    """
    apply, longest = REDUCTIONS[how or "sum"].apply, 0  # type: ignore[index]  # a call less
    if how == "avg":
        return averaged(wires)
    if len(wires) > 2 and wires[0].dtype.kind in "iub" and len({(len(wire), wire.dtype) for wire in wires}) == 1:
        # For integers the order does not matter; floats are added in the order of the group.
        total: HostArray = apply.reduce(np.concatenate(wires).reshape(len(wires), -1), 0, wires[0].dtype)
        return total
    same = len(wires) == 2 and len(wires[0]) == len(wires[1]) and wires[0].dtype == wires[1].dtype
    if same and wires[0].dtype.kind != "V":
        both: HostArray = apply(*wires)
        return both
    for index, wire in enumerate(wires):
        if len(wire) > len(wires[longest]):
            longest = index
    total = np.array(wires[longest])
    if total.dtype.kind == "V":
        return _of_bfloat16(apply, total, [wire for index, wire in enumerate(wires) if index != longest])
    for index, wire in enumerate(wires):
        if index != longest:
            same = wire.dtype == total.dtype
            if same and len(wire) == len(total):
                apply(total, wire, out=total)
            else:
                total[: len(wire)] = apply(total[: len(wire)], converted(wire, total.dtype))
    return total


def averaged(wires: Sequence[HostArray]) -> HostArray:
    """Returns the sum of the wires, divided by their number.

    >>> averaged([np.array([1.0, 5.0]), np.array([2.0, 3.0])])
    array([1.5, 4. ])
    """
    total = reduced("sum", wires)
    if total.dtype.kind == "V":
        return as_bfloat16(as_float32(total) / len(wires))
    mean: HostArray = (total / len(wires)).astype(total.dtype)
    return mean


def _of_bfloat16(apply: Any, first: HostArray, others: Sequence[HostArray]) -> HostArray:
    """`first` is the longest."""
    total = as_float32(first)
    for wire in others:
        part = apply(total[: len(wire)], converted(wire, total.dtype))
        total[: len(wire)] = as_float32(as_bfloat16(part))
    return as_bfloat16(total)


def cut(array: HostArray, sizes: Sequence[int], members: int) -> list[HostArray]:
    """Returns the pieces of an array, cut by sizes or into equal parts."""
    pieces, start = [], 0
    for size in sizes or [len(array) // members] * members:
        pieces.append(array[start : start + size])
        start += size
    return pieces
