"""What each member of a collective gets, computed from what all members send.

Every member gets what its own description asks for, as far as it fits: where all describe the same collective, as they
should, most of the work is done once for all of them. Results never share memory with what was sent, since results are
written over it, but members may share a result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpsim.backend.journal.issue import Issue
from dpsim.contract.interface import HostArray
from dpsim.sim.collectives.contribution import Contribution

SHARED = frozenset({"all_reduce", "broadcast", "all_gather", "barrier"})
"""Collectives of which all members get the same."""

REDUCTIONS: dict[str | None, Any] = {"sum": np.add, "max": np.maximum, "min": np.minimum, None: np.add}


class Results:
    """The results of one collective or transfer. `indices`: of its members, in order; `brought`: as they came."""

    def __init__(self, indices: Mapping[int, int], brought: Mapping[int, Contribution]) -> None:
        self.indices = indices
        self.brought = brought
        ordered = [brought[rank] for rank in indices]
        self.wires = [one.sent() if one.issue.altered else one.source for one in ordered]
        self._shared: dict[Any, HostArray] = {}

    def all(self) -> list[HostArray]:
        """In the order of `brought`."""
        issues = [own.issue for own in self.brought.values()]
        issue, members = issues[0], len(issues)
        if issues.count(issue) == members:
            if issue.op in SHARED:
                return [self._one(0, issue)] * members
            if issue.op == "all_to_all" and not issue.sizes and not issue.count % members:
                matrix = np.concatenate(self.wires).reshape(members, members, issue.count // members)
                rows = matrix.transpose(1, 0, 2).reshape(members, issue.count)
                return [rows[self.indices[rank]] for rank in self.brought]
        return [self._one(rank, own.issue) for rank, own in self.brought.items()]

    def of(self, rank: int) -> HostArray:
        """Of one member."""
        return self._one(rank, self.brought[rank].issue)

    def _one(self, rank: int, issue: Issue) -> HostArray:
        op = issue.op
        if op == "all_reduce":
            return self._reduced(issue.reduce)
        if op == "all_to_all":
            return self._exchanged(rank)
        if op == "reduce_scatter":
            return cut(self._reduced(issue.reduce), issue.sizes, len(self.wires))[self.indices[rank]]
        if op == "broadcast":
            assert issue.root is not None
            key = op, issue.root
            if key not in self._shared:
                self._shared[key] = np.array(self.wires[self.indices[issue.root]])
            return self._shared[key]
        if op == "all_gather":
            if op not in self._shared:
                self._shared[op] = np.concatenate(self.wires)
            return self._shared[op]
        if op == "recv":
            assert issue.peer is not None
            return self.wires[self.indices[issue.peer]]
        return np.empty(0, issue.dtype)

    def _reduced(self, how: str | None) -> HostArray:
        total = self._shared.get(how)
        if total is None:
            total = self._shared[how] = reduce(how, self.wires)
        return total

    def _exchanged(self, rank: int) -> HostArray:
        """What all members send to this one."""
        wires, members = self.wires, len(self.wires)
        sizes = [self.brought[member].issue.sizes[:members] for member in self.indices]
        return np.concatenate(
            [cut(wire, size, members)[self.indices[rank]] for wire, size in zip(wires, sizes, strict=True)]
        )


def reduce(how: str | None, wires: Sequence[HostArray]) -> HostArray:
    """Elementwise, in the order of the group but for the longest wire, which is first; shorter ones have no say in the
    rest.

    >>> reduce("max", [np.array([1, 5]), np.array([2, 3, 4])])
    array([2, 5, 4])
    """
    apply, longest = REDUCTIONS[how], 0
    if len(wires) > 2 and wires[0].dtype.kind == "i" and len({(len(wire), wire.dtype) for wire in wires}) == 1:
        # In no order, which for integers is as good; floats are added in the order of the group.
        total: HostArray = apply.reduce(np.concatenate(wires).reshape(len(wires), -1), 0, wires[0].dtype)
        return total
    if len(wires) == 2 and len(wires[0]) == len(wires[1]) and wires[0].dtype == wires[1].dtype:
        both: HostArray = apply(*wires)
        return both
    for index, wire in enumerate(wires):
        if len(wire) > len(wires[longest]):
            longest = index
    total = np.array(wires[longest])
    for index, wire in enumerate(wires):
        if index != longest:
            same = wire.dtype == total.dtype
            if same and len(wire) == len(total):
                apply(total, wire, out=total)
            else:
                total[: len(wire)] = apply(total[: len(wire)], wire.astype(total.dtype))
    return total


def cut(array: HostArray, sizes: Sequence[int], members: int) -> list[HostArray]:
    """The array cut by sizes, or into equal parts."""
    pieces, start = [], 0
    for size in sizes or [len(array) // members] * members:
        pieces.append(array[start : start + size])
        start += size
    return pieces
