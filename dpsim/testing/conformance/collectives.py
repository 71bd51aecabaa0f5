"""The part `collectives`: all collectives of the contract, on host and device memory, for every root and form of sizes.

The input of each member is known, so one table of calls and results serves both domains. The size vectors are uneven,
differ in each round, and include a member without elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from dpsim.contract.interface import DeviceCommunicator, HostArray, HostCommunicator
from dpsim.contract.ops import DType, ReduceOp
from dpsim.testing.conformance.ground import WIDE, Round, expect, increase

REDUCTIONS: dict[ReduceOp, Callable[..., HostArray]] = {"sum": np.sum, "max": np.max, "min": np.min}
"""The expected reductions. They are written here again, because `dpsim.contract.collectives` is under test."""

GATHERED = (
    "the root receives the arrays of all members in the order of `ranks`, and the other "
    "members receive nothing. A wrong backend mixes up the order, or gives all members the "
    "arrays"
)
SCATTERED = (
    "each member receives its own piece of the root's array. A wrong backend sends it the piece of another member"
)
REDUCED = (
    "the root receives the reduction over the group, and the other members keep what they "
    "sent. A wrong backend reduces too early, or gives all members the result"
)


class Call(NamedTuple):
    """A collective of pieces. `brings`: this member's elements. `gets`: the expected result."""

    name: str
    brings: int
    keywords: dict[str, Any]
    gets: HostArray
    law: str


async def collectives(at: Round) -> None:
    """Runs all collectives on the host group and on both device groups."""
    for dtype in WIDE:
        await _host(at, dtype)
        for kind in ("dp", "ep"):
            await _device(at, at.rank.device(kind), dtype)


async def _host(at: Round, dtype: DType) -> None:
    group, mine = at.host, at.line(at.rank.rank, 6, dtype).reshape(2, 3)
    for op in REDUCTIONS:
        keywords: dict[str, Any] = {} if op == "sum" else {"op": op}
        law = (
            f"each member receives a new array with the {op} over the group, in the shape and type of its input. "
            "A wrong backend loses an input, or changes shape or type"
        )
        what = f"host all_reduce of {dtype}"
        expect(what, await group.all_reduce(mine, **keywords), _reduced(at, group, dtype, op, (2, 3)), law)
    for root in group.ranks:
        law = (
            f"each member receives the array of global rank {root}. A wrong backend takes another "
            "root, or changes shape or type"
        )
        got = await group.broadcast(mine, root, site="conformance.host.broadcast")
        expect(f"host broadcast of {dtype}", got, at.line(root, 6, dtype).reshape(2, 3), law)
        op = _one_of(at, root)
        got = await group.reduce(mine, root, op=op, site="conformance.host.reduce")
        wanted = _reduced(at, group, dtype, op, (2, 3)) if root == at.rank.rank else mine
        expect(f"host reduce of {dtype}", got, wanted, REDUCED)
        await _host_pieces(at, root, dtype)
    law = (
        "a host collective returns a new array and does not change the sent one. A wrong backend "
        "writes the result into the sent array"
    )
    expect(f"the {dtype} array sent", mine, at.line(at.rank.rank, 6, dtype).reshape(2, 3), law)
    for call in _calls(at, group, dtype):
        got = await getattr(group, call.name)(at.line(at.rank.rank, call.brings, dtype), **call.keywords)
        expect(f"host {call.name} of {dtype}", got, call.gets, call.law)
    law = "the await of a barrier returns an empty array. A wrong backend returns elements"
    expect("host barrier", (await group.barrier()).size, 0, law)


async def _device(at: Round, group: DeviceCommunicator, dtype: DType) -> None:
    me = at.rank.rank
    for op in REDUCTIONS:
        buffer, keywords = at.put(4, dtype), {} if op == "sum" else {"op": op}
        group.all_reduce(buffer, at.main, **keywords)
        at.main.launch("conformance.increase", increase, writes=[buffer])
        law = (
            f"all_reduce computes the {op} over the group in place, after the stream's earlier kernels "
            "and before its later ones. A wrong backend runs it too early or too late"
        )
        wanted = _reduced(at, group, dtype, op, (4,)) + 1
        expect(f"{group.name} all_reduce of {dtype}", await buffer.read("conformance.read"), wanted.astype(dtype), law)
        buffer.free()
    for root in group.ranks:
        buffer = at.put(4, dtype)
        group.broadcast(buffer, root, at.main, site="conformance.device.broadcast")
        got = await buffer.read("conformance.read")
        law = (
            f"broadcast copies the buffer of global rank {root} into the buffer of each member. A "
            "wrong backend takes another root"
        )
        expect(f"{group.name} broadcast of {dtype}", got, at.line(root, 4, dtype), law)
        buffer.free()
        buffer, op = at.put(4, dtype), _one_of(at, root)
        group.reduce(buffer, root, at.main, op=op, site="conformance.device.reduce")
        got = await buffer.read("conformance.read")
        wanted = _reduced(at, group, dtype, op, (4,)) if root == me else at.line(me, 4, dtype)
        expect(f"{group.name} reduce of {dtype}", got, wanted, REDUCED)
        buffer.free()
        await _device_pieces(at, group, root, dtype)
    for call in _calls(at, group, dtype):
        source, output = at.put(call.brings, dtype), at.alloc(call.gets.size, dtype)
        getattr(group, call.name)(output, source, at.main, **call.keywords)
        expect(f"{group.name} {call.name} of {dtype}", await output.read("conformance.read"), call.gets, call.law)
        law = "only the output is written"
        got = await source.read("conformance.source")
        expect(f"the source of {group.name} {call.name}", got, at.line(at.rank.rank, call.brings, dtype), law)
        source.free()
        output.free()


async def _host_pieces(at: Round, root: int, dtype: DType) -> None:
    group, me = at.host, at.rank.rank
    got = await group.gather(at.line(me, 2, dtype), root, site="conformance.host.gather")
    wanted = np.concatenate([at.line(rank, 2 if root == me else 0, dtype) for rank in group.ranks])
    expect(f"host gather of {dtype}", got, wanted, GATHERED)
    got = await group.scatter(at.line(me, 2 * group.size, dtype), root, site="conformance.host.scatter")
    wanted = at.line(root, 2 * group.size, dtype)[2 * group.index :][:2]
    expect(f"host scatter of {dtype}", got, wanted, SCATTERED)


async def _device_pieces(at: Round, group: DeviceCommunicator, root: int, dtype: DType) -> None:
    mine, whole = at.put(2, dtype), at.alloc(2 * group.size, dtype) if root == at.rank.rank else None
    group.gather(whole, mine, root, at.main, site="conformance.device.gather")
    if whole is not None:
        wanted = np.concatenate([at.line(rank, 2, dtype) for rank in group.ranks])
        expect(f"{group.name} gather of {dtype}", await whole.read("conformance.read"), wanted, GATHERED)
        whole.free()
    law = "only the output is written"
    expect(
        f"the source of a {group.name} gather",
        await mine.read("conformance.source"),
        at.line(at.rank.rank, 2, dtype),
        law,
    )
    whole = at.put(2 * group.size, dtype) if root == at.rank.rank else None
    group.scatter(mine, whole, root, at.main, site="conformance.device.scatter")
    wanted = at.line(root, 2 * group.size, dtype)[2 * group.index :][:2]
    expect(f"{group.name} scatter of {dtype}", await mine.read("conformance.read"), wanted, SCATTERED)
    mine.free()
    if whole is not None:
        whole.free()


def _one_of(at: Round, root: int) -> ReduceOp:
    return [*REDUCTIONS][(root + at.step) % len(REDUCTIONS)]


def _reduced(
    at: Round, group: HostCommunicator | DeviceCommunicator, dtype: DType, op: ReduceOp, shape: tuple[int, ...]
) -> HostArray:
    lines = [at.line(rank, int(np.prod(shape)), dtype) for rank in group.ranks]
    return REDUCTIONS[op](lines, axis=0).astype(dtype).reshape(shape)


def _calls(at: Round, group: HostCommunicator | DeviceCommunicator, dtype: DType) -> Iterator[Call]:
    n, me, ranks = group.size, group.index, group.ranks
    for sizes in ([3] * n, [(index + at.step) % n for index in range(n)]):
        equal = sizes == [3] * n
        keywords: dict[str, Any] = {} if equal else {"sizes": sizes}
        first, end = sum(sizes[:me]), sum(sizes[: me + 1])
        gathered = np.concatenate([at.line(rank, size, dtype) for rank, size in zip(ranks, sizes, strict=True)])
        yield Call(
            "all_gather",
            sizes[me],
            keywords,
            gathered,
            (
                "each member receives the arrays of all members in the order of `ranks`, as one flat "
                "array. A wrong backend mixes up the order or the sizes"
            ),
        )
        total = _reduced(at, group, dtype, "sum", (sum(sizes),))
        law = (
            "each member receives its own piece of the sum over the group, as a flat array. A wrong "
            "backend sends it another piece"
        )
        yield Call("reduce_scatter", sum(sizes), keywords, total[first:end], law)
        # What member i sends to j differs from what j sends to i, so mixed-up vectors show.
        table = [[2 if equal else (2 * i + j + at.step) % n for j in range(n)] for i in range(n)]
        lines = [at.line(rank, sum(row), dtype) for rank, row in zip(ranks, table, strict=True)]
        got = [line[sum(row[:me]) : sum(row[: me + 1])] for line, row in zip(lines, table, strict=True)]
        keywords = {} if equal else {"source_sizes": table[me], "output_sizes": [row[me] for row in table]}
        law = (
            "each member receives a piece from each member, in the order of `ranks`, as one flat "
            "array. A wrong backend mixes up the order or the sizes"
        )
        yield Call("all_to_all", sum(table[me]), keywords, np.concatenate(got), law)
