"""Tests which members of a collective a member waits for."""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.contract.ops import CALL
from dpsim.contract.rules.wait_set import awaited
from tests.checks.happens_before.naive import moved
from tests.records import all_reduce

MEMBERS = (3, 5, 8)


def call(op: str, count: int, sizes: tuple[int, ...] = (), root: int | None = None) -> Any:
    return all_reduce("call", "c", 0, op=op, count=count, sizes=sizes, root=root)[CALL]


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "scatter"])
def test_an_empty_transfer_waits_for_no_rank(op: str) -> None:
    root = 5 if op in ("broadcast", "scatter") else None
    for rank in MEMBERS:
        assert awaited(call(op, 0, root=root), rank, MEMBERS) == ()
        assert awaited(call(op, 6, root=root), rank, MEMBERS) == (
            MEMBERS if root is None else () if rank == root else (root,)
        )


@pytest.mark.parametrize("op", ["reduce", "gather"])
def test_the_root_alone_waits(op: str) -> None:
    for rank in MEMBERS:
        assert awaited(call(op, 6, root=5), rank, MEMBERS) == (MEMBERS if rank == 5 else ())
        assert awaited(call(op, 0, root=5), rank, MEMBERS) == ()


def test_a_barrier_waits_for_all() -> None:
    assert awaited(call("barrier", 0), 3, MEMBERS) is MEMBERS


@pytest.mark.parametrize("sizes", [(2, 0, 1), (0, 0, 4), (0, 0, 0), (1, 1, 1)])
def test_pieces_of_no_elements_are_not_waited_for(sizes: tuple[int, ...]) -> None:
    rows = [sizes, (0, 1, 1), (1, 0, 0)]
    for index, rank in enumerate(MEMBERS):
        calls = {
            "all_gather": call("all_gather", sizes[index], sizes),
            "reduce_scatter": call("reduce_scatter", sum(sizes), sizes),
            "all_to_all": call("all_to_all", sum(rows[index]), (*rows[index], *[row[index] for row in rows])),
        }
        for op, raw_call in calls.items():
            each = moved(op, 0, None, rows, 3)
            wanted = [member for one, member in enumerate(MEMBERS) if each[one][index]]
            assert list(awaited(raw_call, rank, MEMBERS)) == wanted, op


@pytest.mark.parametrize("op", ["broadcast", "scatter"])
def test_a_foreign_root_makes_members_wait_for_all(op: str) -> None:
    assert awaited(call(op, 4, root=4), 3, MEMBERS) is MEMBERS
