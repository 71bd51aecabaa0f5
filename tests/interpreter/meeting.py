"""Collectives in the interpreter: the members from which a member gets elements, and the result.

The contract says of a member: "It waits for those whose elements it gets, and surely for no others". `sources` returns
these members. Whether the member also waits for others is open, so the interpreter tries both.

    sources("broadcast", (1, 0), members=(0, 1, 2), me=2)      # {0}
    sources("broadcast", (1, 0), members=(0, 1, 2), me=0)      # none: the root has its elements
    sources("reduce", (1, 0), members=(0, 1, 2), me=0)         # {1, 2}, and for these no member
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import TypeAlias

import numpy as np

from tests.interpreter.language import Shape

Values: TypeAlias = tuple[int | None, ...]
"""The values of elements; None is an unwritten element."""


def sources(op: str, shape: Shape, members: tuple[int, ...], me: int) -> frozenset[int]:
    """Returns the other members for which this member is sure to wait."""
    mine = members.index(me)
    match op:
        case "barrier" | "make":
            heard = set(members)
        case "all_reduce":
            heard = set(members) if shape[0] else set()
        case "float":
            heard = set(members)
        case "reduce_scatter":
            heard = set(members) if shape[mine] else set()
        case "broadcast" | "scatter":
            heard = {shape[1]} if shape[0] else set()
        case "reduce" | "gather":
            heard = set(members) if shape[0] and me == shape[1] else set()
        case "all_gather":
            heard = {member for member, size in zip(members, shape, strict=True) if size}
        case "all_to_all":
            heard = {member for member, row in zip(members, shape, strict=True) if row[mine]}
        case _:
            raise ValueError(op)
    return frozenset(heard - {me})


def result(op: str, shape: Shape, members: tuple[int, ...], me: int, brought: Mapping[int, Values]) -> Values:
    """Returns the elements that a member gets. `brought` has an entry for each of its sources and for itself."""
    mine = members.index(me)
    match op:
        case "all_reduce":
            return _sums(shape[0], brought, members) if shape[0] else ()
        case "reduce_scatter":
            first = sum(shape[:mine])
            return _sums(sum(shape), brought, members)[first : first + shape[mine]] if shape[mine] else ()
        case "broadcast":
            return brought[shape[1]] if shape[0] else ()
        case "reduce":
            if me != shape[1]:  # "on the others the array that they brought"
                return brought[me]
            return _sums(shape[0], brought, members) if shape[0] else ()
        case "gather":
            return sum((brought[member] for member in members), ()) if me == shape[1] and shape[0] else ()
        case "scatter":
            return brought[shape[1]][mine * shape[0] : (mine + 1) * shape[0]] if shape[0] else ()
        case "all_gather":
            return sum((brought[member] for member, size in zip(members, shape, strict=True) if size), ())
        case "all_to_all":
            pieces: Values = ()
            for member, row in zip(members, shape, strict=True):
                first = sum(row[:mine])
                pieces += brought[member][first : first + row[mine]] if row[mine] else ()
            return pieces
        case _:  # a barrier
            return ()


def brings(op: str, shape: Shape, members: tuple[int, ...], me: int) -> int:
    """Returns the number of elements that a member brings."""
    mine = members.index(me)
    match op:
        case "all_gather":
            return int(shape[mine])
        case "reduce_scatter":
            return int(sum(shape))
        case "all_to_all":
            return int(sum(shape[mine]))
        case "scatter":  # the other members' buffers are not read
            return int(len(members) * shape[0])
        case "barrier" | "make" | "recv" | "any":
            return 0
        case "float":
            return 1
        case _:
            return int(shape[0])


def gets(op: str, shape: Shape, members: tuple[int, ...], me: int) -> int:
    """Returns the number of elements that a member has at the end."""
    mine = members.index(me)
    match op:
        case "all_gather":
            return int(sum(shape))
        case "reduce_scatter":
            return int(shape[mine])
        case "all_to_all":
            return int(sum(row[mine] for row in shape))
        case "gather":
            return int(len(members) * shape[0]) if me == shape[1] else 0
        case "barrier" | "make" | "send":
            return 0
        case "float":
            return 1
        case _:
            return int(shape[0])


def is_idle(op: str, shape: Shape, members: tuple[int, ...], me: int) -> bool:
    """Returns whether a member neither brings nor gets any element."""
    return op != "barrier" and not brings(op, shape, members, me) and not gets(op, shape, members, me)


def marks(op: str, shape: Shape) -> list[str]:
    """Returns the marks of `State` that the end of a member's call causes. Only ("float", (reduction, value of each
    member)) causes any.
    """
    if op != "float":
        return []
    reduction, values = shape
    if "nan" in values:
        return ["lost"] if reduction in ("max", "min") else []
    differ = {"sum": _differ, "avg": _differ, "prod": _products_differ}.get(reduction, lambda _: False)
    return ["rounded"] if differ(values) else []


def _differ(values: tuple[float, ...]) -> bool:
    """Returns whether the sum of the values as 32-bit floats differs between the two directions."""
    there, back = np.float32(0), np.float32(0)
    for one, other in zip(values, reversed(values), strict=True):
        there, back = there + np.float32(one), back + np.float32(other)
    return bool(there != back)


def _products_differ(values: tuple[float, ...]) -> bool:
    """Returns whether the product of the values as 32-bit floats depends on their order."""
    products = set()
    for order in permutations(values):
        product = np.float32(1)
        for one in order:
            with np.errstate(over="ignore"):
                product = product * np.float32(one)
        products.add(float(product))
    return len(products) > 1


def _sums(size: int, brought: Mapping[int, Values], members: tuple[int, ...]) -> Values:
    columns = [[brought[member][place] for member in members] for place in range(size)]
    return tuple(None if None in column else sum(value or 0 for value in column) for column in columns)
