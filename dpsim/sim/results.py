"""What each member of a collective gets, computed from what all members send.

Every member gets what its own description asks for, as far as it fits: where all describe the same collective, as they
should, most of the work is done once for all of them. Results never share memory with what was sent, since results are
written over it, but members may share a result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from dpsim.backend.issue import Issue
from dpsim.interface import HostArray
from dpsim.sim.contribution import Contribution

SHARED = frozenset({"all_reduce", "broadcast", "all_gather", "barrier"})
"""Collectives of which all members get the same."""

REDUCTIONS: dict[str | None, Any] = {"sum": np.add, "max": np.maximum, "min": np.minimum, None: np.add}


@lru_cache(4096)
def awaited(issue: Issue, rank: int, members: tuple[int, ...]) -> frozenset[int] | None:
    """For whom a member waits at least: whose elements it gets by its own description, and itself; None for all.

    >>> awaited(Issue("broadcast", 1, "int32", root=0), 2, (0, 1, 2)), awaited(Issue("barrier", 0, "int32"), 0, (0, 1))
    (frozenset({0, 2}), None)
    >>> awaited(Issue("all_gather", 2, "int32", sizes=(0, 2, 1)), 1, (5, 1, 7))
    frozenset({1, 7})
    """
    op, sizes, count, size = issue.op, issue.sizes, issue.count, len(members)
    if op == "broadcast":
        brings = [member == issue.root and count > 0 for member in members]
    elif op == "all_gather":
        brings = [number > 0 for number in sizes or (count,) * size]
    elif op == "all_to_all":
        brings = [number > 0 for number in sizes[size:] or (count // size,) * size]
    elif op == "reduce_scatter":
        brings = [(sizes[members.index(rank)] if sizes else count // size) > 0] * size
    else:
        brings = [op in ("barrier", "recv") or (op == "all_reduce" and count > 0)] * size
    wanted = frozenset([member for member, something in zip(members, brings, strict=True) if something]) | {rank}
    return wanted if len(wanted) < size else None


def is_idle(issue: Issue, rank: int, members: tuple[int, ...]) -> bool:
    """Whether a member neither gives elements nor gets any.

    >>> is_idle(Issue("all_reduce", 0, "int32"), 0, (0, 1)), is_idle(Issue("barrier", 0, "int32"), 0, (0, 1))
    (True, False)
    >>> gives, gets = (1, 1), (0, 0)
    >>> is_idle(Issue("all_to_all", 2, "int32", sizes=gives + gets), 0, (0, 1))
    False
    """
    if issue.op in ("all_gather", "all_to_all") and issue.sizes:
        return not any(issue.sizes)
    return issue.op != "barrier" and not issue.count


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
