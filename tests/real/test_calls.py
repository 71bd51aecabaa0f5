"""Tests of the collectives of both libraries, on threads of one process. NCCL's calls run on gloo groups, which checks
how dpsim composes them, but not streams.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dpsim.backend.journal.issue import Issue
from dpsim.contract.collectives import COLLECTIVES
from dpsim.contract.collectives.reductions import REDUCTIONS
from dpsim.contract.world import CommunicatorSpec

torch = pytest.importorskip("torch")

from real import gloo_calls, nccl_calls  # noqa: E402
from real.calls import rooted  # noqa: E402
from real.communicators import Group  # noqa: E402

MEMBERS = 3
RANKS = (4, 6, 9)  # global ranks, unlike indices


class InPlaceOfNccl:
    """A gloo group that accepts coalesced transfers, as NCCL does. The Work of the group waits for all of them."""

    def __init__(self, process_group: Any) -> None:
        self._process_group = process_group
        self._works: list[Any] | None = None

    def _start_coalescing(self) -> None:
        self._works = []

    def _end_coalescing(self) -> Any:
        works, self._works = self._works, None
        assert works is not None
        return gloo_calls.Pending(works)

    def reduce(self, tensors: list[Any], options: Any) -> Any:
        """Reduces as NCCL does, which leaves the memory of all members except the root unchanged."""
        root = options.rootRank == self._process_group.rank()
        return self._process_group.reduce(tensors if root else [tensors[0].clone()], options)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._process_group, name)

        def call(*args: Any) -> Any:
            work = method(*args)
            if self._works is not None:
                self._works.append(work)
            return work

        return call


def nccl(group: Group, issue: Issue, source: Any, output: Any) -> None:
    nccl_calls.start(Group(group.spec, InPlaceOfNccl(group.process_group)), issue, source, output)


def gloo(group: Group, issue: Issue, source: Any, output: Any) -> None:
    gloo_calls.start(group, issue, source, output).wait()


@pytest.fixture(scope="module")
def groups() -> list[Group]:
    from torch.distributed import HashStore

    store, spec = HashStore(), CommunicatorSpec("dp", "dp", "device", RANKS)
    with ThreadPoolExecutor(MEMBERS) as threads:
        made = threads.map(lambda index: gloo_calls.connect_gloo(spec, store, index), range(MEMBERS))
        return [Group(spec, process_group) for process_group in made]


def on_all(groups: list[Group], body: Callable[[Group, int], Any]) -> list[Any]:
    with ThreadPoolExecutor(MEMBERS) as threads:
        return list(threads.map(body, groups, range(MEMBERS)))


SIZES = (0, 2, 3)
CASES = [  # issue, output elements, and each member's result if it brings 10 i, 10 i + 1, ...
    (Issue("all_reduce", 2, "int32", reduce="sum"), 2, [[30, 33]] * 3),
    (Issue("all_reduce", 2, "float32", reduce="max"), 2, [[20, 21]] * 3),
    (Issue("all_reduce", 2, "int64", reduce="min"), 2, [[0, 1]] * 3),
    (Issue("all_reduce", 2, "float64", reduce="avg"), 2, [[10, 11]] * 3),
    (Issue("all_reduce", 2, "float16", reduce="prod"), 2, [[0, 231]] * 3),
    (Issue("all_reduce", 2, "uint8", reduce="bxor"), 2, [[30, 31]] * 3),
    (Issue("reduce", 2, "int8", root=6, reduce="bor"), 2, [[-1, -1], [30, 31], [-1, -1]]),
    (Issue("reduce_scatter", 6, "float32", reduce="max"), 2, [[20, 21], [22, 23], [24, 25]]),
    (Issue("reduce_scatter", 5, "int64", reduce="band", sizes=SIZES), -1, [[], [0, 1], [0, 1, 0]]),
    (Issue("all_gather", 2, "int16"), 6, [[0, 1, 10, 11, 20, 21]] * 3),
    (Issue("all_to_all", 3, "complex64"), 3, [[0, 10, 20], [1, 11, 21], [2, 12, 22]]),
    (Issue("scatter", 6, "int16", root=6), 2, [[10, 11], [12, 13], [14, 15]]),
    (Issue("gather", 2, "complex128", root=6), 6, [[-1] * 6, [0, 1, 10, 11, 20, 21], [-1] * 6]),
    (Issue("broadcast", 2, "int32", root=6), 2, [[10, 11], [-1, -1], [10, 11]]),
    (Issue("reduce", 2, "int32", root=6, reduce="sum"), 2, [[-1, -1], [30, 33], [-1, -1]]),
    (Issue("reduce", 2, "float32", root=4, reduce="max"), 2, [[20, 21], [-1, -1], [-1, -1]]),
    (Issue("gather", 2, "int32", root=6), 6, [[-1] * 6, [0, 1, 10, 11, 20, 21], [-1] * 6]),
    (Issue("gather", 0, "int32", root=6), 0, [[], [], []]),
    (Issue("scatter", 6, "int64", root=6), 2, [[10, 11], [12, 13], [14, 15]]),
    (Issue("scatter", 0, "int64", root=6), 0, [[], [], []]),
    (Issue("all_gather", 2, "int32"), 6, [[0, 1, 10, 11, 20, 21]] * 3),
    (Issue("all_gather", -1, "int32", sizes=SIZES), 5, [[10, 11, 20, 21, 22]] * 3),
    (Issue("reduce_scatter", 6, "int32"), 2, [[30, 33], [36, 39], [42, 45]]),
    (Issue("reduce_scatter", 5, "int32", sizes=SIZES), -1, [[], [30, 33], [36, 39, 42]]),
    (Issue("all_to_all", 3, "int32"), 3, [[0, 10, 20], [1, 11, 21], [2, 12, 22]]),
    (Issue("all_to_all", 3, "int32", sizes=(0, 1, 2, -1, -1, -1)), -1, [[], [0, 10, 20], [1, 2, 11, 12, 21, 22]]),
    (Issue("barrier", 0, "int32"), 0, [[]] * 3),
    # Altered calls: another collective than the memory is for, as far as the result fits.
    (Issue("all_gather", 2, "int32", altered=True), 3, [[0, 1, 10]] * 3),
    (Issue("reduce_scatter", 3, "int32", altered=True), 2, [[30, -1], [33, -1], [36, -1]]),
    (Issue("all_reduce", 3, "int64", altered=True), 2, [[30, 33]] * 3),
    (Issue("gather", 3, "int64", root=9, altered=True), 2, [[-1, -1], [-1, -1], [0, 1]]),
    (Issue("scatter", 6, "int64", root=9, altered=True), 3, [[20, 21, -1], [22, 23, -1], [24, 25, -1]]),
    (Issue("reduce", 3, "int64", root=9, altered=True), 2, [[-1, -1], [-1, -1], [30, 33]]),
]


@pytest.mark.parametrize("library", [gloo, nccl])
@pytest.mark.parametrize(("issue", "count", "expected"), CASES, ids=lambda case: getattr(case, "op", ""))
def test_each_collective_of_both_libraries_computes_what_it_should(
    groups: list[Group], library: Any, issue: Issue, count: int, expected: list[list[int]]
) -> None:
    def body(group: Group, index: int) -> list[int]:
        mine = issue._replace(sizes=tuple(SIZES[index] - 1 if size == -1 else size for size in issue.sizes))
        if issue.op == "all_to_all" and issue.sizes:
            mine = issue._replace(sizes=(0, 1, 2) + (index,) * MEMBERS)
        brings = SIZES[index] if issue.count == -1 else issue.count
        mine = mine._replace(count=brings)
        # Altered calls: the memory has another type, or is longer.
        dtype = "int32" if issue.altered else issue.dtype
        source = (torch.arange(brings) + 10 * index).to(getattr(torch, dtype))
        gets = len(expected[index]) if count == -1 else count
        output = torch.full((gets,), -1, dtype=source.dtype)
        library(group, mine, source, output)
        assert source.tolist() == [10 * index + k for k in range(brings)] or issue.op in ("all_reduce", "broadcast")
        return list(output.tolist())

    assert on_all(groups, body) == expected


@pytest.mark.parametrize("library", [gloo, nccl])
@pytest.mark.parametrize(("op", "reduce", "wanted"), [("all_reduce", "sum", 4.5), ("all_reduce", "avg", 1.5)])
def test_memory_of_a_type_that_numpy_lacks_has_bits(
    groups: list[Group], library: Any, op: str, reduce: str, wanted: float
) -> None:
    def body(group: Group, index: int) -> float:
        memory = torch.full((1,), 0.5 + index, dtype=torch.bfloat16).view(torch.int16)
        library(group, Issue(op, 1, "bfloat16", reduce=reduce), memory, memory)
        return float(memory.view(torch.bfloat16)[0])

    assert on_all(groups, body) == [wanted] * MEMBERS


@pytest.mark.parametrize("library", [gloo, nccl])
@pytest.mark.parametrize(("reduce", "wanted"), [("sum", 1), ("prod", 0), ("bxor", 0), ("max", 1)])
def test_true_and_false_are_one_and_zero(groups: list[Group], library: Any, reduce: str, wanted: int) -> None:
    """Reduces bools of which two of three are True. A sum of bytes would leave 2, which is no bool."""

    def body(group: Group, index: int) -> int:
        memory = torch.tensor([index > 0])
        library(group, Issue("all_reduce", 1, "bool", reduce=reduce), memory, memory)
        return int(memory.view(torch.uint8)[0])

    assert on_all(groups, body) == [wanted] * MEMBERS


@pytest.mark.parametrize("together", [True, False])
def test_transfers_in_the_place_of_nccl(groups: list[Group], together: bool) -> None:
    """Transfers around the ring. Coalesced transfers all begin with their sends, but single ones must not."""

    def body(group: Group, index: int) -> list[int]:
        after, before = RANKS[(index + 1) % MEMBERS], RANKS[index - 1]
        mine, theirs = torch.full((2,), index), torch.full((2,), -1)
        transfers = [(Issue("send", 2, "int64", peer=after), mine), (Issue("recv", 2, "int64", peer=before), theirs)]
        if not together and index % 2:
            transfers.reverse()
        stand_in = Group(group.spec, InPlaceOfNccl(group.process_group))
        nccl_calls.exchange(stand_in, transfers, together)
        return list(theirs.tolist())

    assert on_all(groups, body) == [[2, 2], [0, 0], [1, 1]]


@pytest.mark.parametrize("library", [gloo, nccl])
def test_an_unknown_collective_or_root_is_refused(groups: list[Group], library: Any) -> None:
    one = torch.ones(1)
    with pytest.raises(ValueError, match="dp: no collective is called 'scan'"):
        library(groups[0], Issue("scan", 1, "float32"), one, one)
    with pytest.raises(ValueError, match="dp: 5 is none of its ranks"):
        library(groups[0], Issue("broadcast", 1, "float32", root=5), one, one)


@pytest.mark.parametrize("library", [gloo, nccl])
def test_only_the_root_of_a_reduce_changes_memory(groups: list[Group], library: Any) -> None:
    """Reduces in place. Only the root's memory changes, although gloo itself changes the memory of every member, as the
    next test shows.
    """

    def body(group: Group, index: int) -> list[int]:
        mine = torch.arange(5) + 10 * index
        library(group, Issue("reduce", 5, "int64", root=RANKS[1], reduce="sum"), mine, mine)
        return list(mine.tolist())

    brought = [[10 * index + place for place in range(5)] for index in range(MEMBERS)]
    assert on_all(groups, body) == [brought[0], [sum(column) for column in zip(*brought, strict=True)], brought[2]]


def test_gloo_computes_in_the_memory_that_it_is_given(groups: list[Group]) -> None:
    def body(group: Group, index: int) -> list[int]:
        mine = torch.full((5,), index + 1)
        group.process_group.reduce([mine], rooted("ReduceOptions", 1, True, "sum", "int64")).wait()
        return list(mine.tolist())

    assert on_all(groups, body) != [[1] * 5, [6] * 5, [3] * 5]


def test_both_libraries_have_every_collective() -> None:
    assert gloo_calls._COLLECTIVES.keys() == nccl_calls._COLLECTIVES.keys() == COLLECTIVES.keys()


def test_torch_has_every_reduction() -> None:
    from torch.distributed import ReduceOp

    assert {str(one.torch) for one in REDUCTIONS.values()} <= set(ReduceOp.RedOpType.__members__)
