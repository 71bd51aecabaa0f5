"""The part `dtypes`: hosts and devices move every element type, and reduce those that the libraries reduce.

A round of the part tests a third of the types. Every rank knows the bytes that each other rank sends. Neighbouring
bytes differ, so a truncation or conversion shows.

The inputs of a reduction are 1, 2 or 3, and those of an average are multiples of the number of members. So each result
is exact, although NCCL multiplies the terms of an average by a rounded 1/n, and gloo divides their sum by n.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast, get_args

import numpy as np
from array_api_compat import array_namespace
from array_api_compat import device as device_of

from dpsim.contract.dtypes import as_bfloat16, as_float32, bits, numpy_dtype
from dpsim.contract.interface import Buffer, DeviceCommunicator, HostArray, HostCommunicator
from dpsim.contract.ops import DTYPES, DType, ReduceOp
from dpsim.testing.conformance.ground import Round, expect, refused

ROUNDS = 3
"""After this number of rounds, each type was tested."""

REDUCED: dict[ReduceOp, Callable[..., Any]] = {
    "sum": np.sum,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "avg": np.mean,
    "band": np.bitwise_and.reduce,
    "bor": np.bitwise_or.reduce,
    "bxor": np.bitwise_xor.reduce,
}
"""The expected reductions, written here again as in the part `collectives`."""

FLOATS = ("float16", "bfloat16", "float32", "float64")

WHOLE = ("bool", "int8", "uint8", "int32", "int64")

LAW = "elements of each type arrive with the same bytes. A wrong backend converts or truncates them"


async def dtypes(at: Round) -> None:
    """Checks each type of this round, on the host group and on a device group."""
    for dtype in get_args(DType)[at.step % ROUNDS :: ROUNDS]:
        await _moves_on_host(at, dtype)
        await _moves_on_device(at, dtype)
        for op in REDUCED:
            await _reduces(at, dtype, op)


def _bytes(at: Round, rank: int, count: int, dtype: str) -> tuple[int, ...]:
    size = count * DTYPES[dtype]
    if dtype == "bool":
        return tuple([(rank + at.step + index) // 2 % 2 for index in range(size)])
    return tuple([(17 * rank + 5 * at.step + 7 * index + 1) % 120 for index in range(size)])


def _array(at: Round, rank: int, count: int, dtype: str) -> HostArray:
    return np.frombuffer(bytes(_bytes(at, rank, count, dtype)), numpy_dtype(dtype)).copy()


def _put(at: Round, given: HostArray, dtype: DType) -> Buffer:
    buffer = at.alloc(given.size, dtype)
    at.main.launch("conformance.bytes", put_bytes, writes=[buffer], args=(tuple(given.tobytes()),))
    return buffer


def _same(what: str, result: HostArray, wanted: HostArray, law: str) -> None:
    """Compares the bits, because a NaN does not equal itself."""
    expect(f"the type of {what}", result.dtype, wanted.dtype, law)
    expect(what, bits(result).view(np.uint8), bits(wanted).view(np.uint8), law)


async def _moves_on_host(at: Round, dtype: DType) -> None:
    group, me, n = at.host, at.rank.rank, at.host.size
    mine, root = _array(at, me, 2 * n, dtype), group.ranks[at.step % n]
    each = [_array(at, rank, 2 * n, dtype) for rank in group.ranks]
    place = slice(2 * group.index, 2 * group.index + 2)
    result = {
        "broadcast": (await group.broadcast(mine, root), _array(at, root, 2 * n, dtype)),
        "all_gather": (await group.all_gather(mine), np.concatenate(each)),
        "gather": (await group.gather(mine, root), np.concatenate(each) if root == me else mine[:0]),
        "scatter": (await group.scatter(mine, root), _array(at, root, 2 * n, dtype)[place]),
        "all_to_all": (await group.all_to_all(mine), np.concatenate([one[place] for one in each])),
    }
    if n > 1:
        before, after = group.ranks[group.index - 1], group.ranks[(group.index + 1) % n]
        sent = group.send(mine, after, site="conformance.host.send")
        got = await group.recv(2 * n, dtype, before, site="conformance.host.recv")
        await sent
        result["recv"] = got, _array(at, before, 2 * n, dtype)
    for name, (got, wanted) in result.items():
        _same(f"a host {name} of {dtype}", got, wanted, LAW)


async def _moves_on_device(at: Round, dtype: DType) -> None:
    group, me, n = at.device, at.rank.rank, at.device.size
    root, main = group.ranks[at.step % n], at.main
    each = [_array(at, rank, n, dtype) for rank in group.ranks]
    mine, place = each[group.index], slice(group.index, group.index + 1)
    source, whole, one = _put(at, mine, dtype), at.alloc(n * n, dtype), at.alloc(1, dtype)
    group.all_gather(whole, source, main)
    got = [("all_gather", await whole.read("conformance.read"), np.concatenate(each))]
    group.gather(whole if root == me else None, source, root, main)
    if root == me:
        got.append(("gather", await whole.read("conformance.read"), np.concatenate(each)))
    group.scatter(one, source if root == me else None, root, main)
    got.append(("scatter", await one.read("conformance.read"), _array(at, root, n, dtype)[place]))
    others = at.alloc(n, dtype)
    group.all_to_all(others, source, main)
    got.append(("all_to_all", await others.read("conformance.read"), np.concatenate([one[place] for one in each])))
    group.broadcast(source, root, main)
    got.append(("broadcast", await source.read("conformance.read"), _array(at, root, n, dtype)))
    if n > 1:
        before, after = group.ranks[group.index - 1], group.ranks[(group.index + 1) % n]
        with group.coalesced(main):
            group.send(source, after, main)
            group.recv(others, before, main)
        got.append(("recv", await others.read("conformance.read"), _array(at, root, n, dtype)))
    for name, result, wanted in got:
        _same(f"a {group.name} {name} of {dtype}", result, wanted, LAW)
    for buffer in (source, whole, one, others):
        buffer.free()


async def _reduces(at: Round, dtype: DType, op: ReduceOp) -> None:
    """A reduction that no library has must be refused."""
    host, device = at.host, at.device
    if not _takes(op, dtype):
        mine, none = _array(at, at.rank.rank, 1, dtype), at.alloc(1, dtype)
        refused(ValueError, f"a host {op} of {dtype}", partial(host.all_reduce, mine, op=op))
        refused(ValueError, f"a {op} of {dtype}", partial(device.all_reduce, none, at.main, op=op))
        none.free()
        return
    law = (
        f"the result is the {op} over the group, exact and in the type of the inputs. A wrong backend "
        "rounds it, or computes another reduction"
    )
    mine, root = _numbers(at, at.rank.rank, host.size, dtype, op), host.ranks[at.step % host.size]
    wanted = _reduced(at, host, dtype, op)
    _same(f"host all_reduce of {dtype}", await host.all_reduce(mine, op=op), wanted, law)
    piece = await host.reduce_scatter(mine, op=op)
    _same(f"host reduce_scatter of {dtype}", piece, wanted[host.index :][:1], law)
    result = await host.reduce(mine, root, op=op)
    _same(f"host reduce of {dtype}", result, wanted if root == at.rank.rank else mine, law)
    mine, wanted = _numbers(at, at.rank.rank, device.size, dtype, op), _reduced(at, device, dtype, op)
    root = device.ranks[at.step % device.size]
    first, second, one = _put(at, mine, dtype), _put(at, mine, dtype), at.alloc(1, dtype)
    device.reduce_scatter(one, first, at.main, op=op)
    device.all_reduce(first, at.main, op=op)
    device.reduce(second, root, at.main, op=op)
    read = [await buffer.read("conformance.read") for buffer in (first, second, one)]
    _same(f"{device.name} all_reduce of {dtype}", read[0], wanted, law)
    _same(f"{device.name} reduce of {dtype}", read[1], wanted if root == at.rank.rank else mine, law)
    _same(f"{device.name} reduce_scatter of {dtype}", read[2], wanted[device.index :][:1], law)
    for buffer in (first, second, one):
        buffer.free()


def _takes(op: ReduceOp, dtype: str) -> bool:
    if op == "avg":
        return dtype in FLOATS
    return dtype in WHOLE or (dtype in FLOATS and op not in ("band", "bor", "bxor"))


def _numbers(at: Round, rank: int, members: int, dtype: str, op: ReduceOp) -> HostArray:
    """1, 2 or 3, or 0 or 1 for bool; for an average, multiplied by `members`, so that results are exact."""
    numbers = (1 + (2 * rank + np.arange(members) + at.step) % 3) * (members if op == "avg" else 1)
    return _of_type(numbers > 1 if dtype == "bool" else numbers, dtype)


def _of_type(numbers: HostArray, dtype: str) -> HostArray:
    return as_bfloat16(numbers.astype(np.float32)) if dtype == "bfloat16" else numbers.astype(dtype)


def _reduced(at: Round, group: HostCommunicator | DeviceCommunicator, dtype: str, op: ReduceOp) -> HostArray:
    lines = [_numbers(at, rank, group.size, dtype, op) for rank in group.ranks]
    if dtype == "bfloat16":
        lines = [as_float32(line) for line in lines]
    return _of_type(np.asarray(REDUCED[op](lines, axis=0)), dtype)


# ---- kernels


def put_bytes(out: Any, values: tuple[int, ...]) -> None:
    """A kernel that writes bytes into the memory of `out`."""
    xp = array_namespace(out)
    out.view(xp.uint8)[...] = xp.asarray(cast(Any, values), dtype=xp.uint8, device=device_of(out))
