"""Checks the sizes that a call gives: one size per member, and the sum has to fit the memory."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import TYPE_CHECKING

from dpsim.contract.words import short

if TYPE_CHECKING:
    from dpsim.contract.collectives.rules import Member


def check_sizes(group: Member, name: str, sizes: Sequence[int] | None, total: int) -> tuple[int, ...]:
    """Returns the elements of each member: the given sizes, else equal parts of `total`. Raises ValueError if these are
    impossible.
    """
    members = len(group.ranks)
    if sizes is None:
        return (equal_size(group, name, total),) * members
    try:
        each = tuple(map(index, sizes))
    except TypeError:
        raise TypeError(f"{group.name}: {name} {short(sizes)} must be integers, one a member") from None
    if len(each) != members or min(each) < 0:
        raise ValueError(f"{group.name}: {name} {list(each)} must be {members} numbers from 0, one a member")
    return each


def equal_size(group: Member, name: str, total: int) -> int:
    """Returns the elements of each member if all have equally many. Raises ValueError if `total` cannot be divided
    so.
    """
    members = len(group.ranks)
    if total % members:
        raise ValueError(f"{group.name}: {total} elements are no {members} equal parts; give {name}")
    return total // members


def given_sizes(sizes: Sequence[int] | None) -> tuple[int, ...]:
    """Returns the sizes as a record contains them: empty if the call gave none."""
    return () if sizes is None else tuple(map(index, sizes))


def check_fits(group: Member, what: str, count: int, wanted: int) -> None:
    """Raises ValueError if memory has another number of elements than the sizes require."""
    if count != wanted:
        raise ValueError(f"{group.name}: the {what} has {count} elements, by the sizes it needs {wanted}")
