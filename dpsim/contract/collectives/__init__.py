"""The collectives of the contract, one file each: givers, receivers, the result, the wait set, the arguments that have
to match.

    all_reduce.py      every member gets the reduction of what all bring
    broadcast.py       every member gets what the root brings
    all_gather.py      every member gets what all bring, one after the other
    reduce_scatter.py  every member gets its piece of the sum
    all_to_all.py      every member gets the pieces that all have for it
    gather.py          the root gets what all bring, one after the other
    scatter.py         every member gets its piece of what the root brings
    barrier.py         every member waits for all, and no elements move
    reduce.py          the root gets the reduction of what all bring
    rules.py           the questions that each of them answers, and what most of them answer
    sent.py            what all members of one collective bring, and what several results have in common
    reductions.py      sum, max, min
    arguments.py       sizes that a call names

The simulation, timed and untimed, gloo, NCCL and the checks use these rules, so they cannot differ. To add a
collective, add a file here, its two signatures in `dpsim.contract.interface`, and its two native calls in `real`
(CONTRIBUTING.md has the recipe). The signatures are the list: each name that `interface` marks as a collective has a
file here, with the object `RULES`.

    >>> COLLECTIVES["reduce"].awaits(("reduce", 4, "int32", 0, "sum", ()), 0, (0, 1, 2))
    (0, 1, 2)
    >>> role("reduce", 0, 2)
    Role(gives=True, gets=False)
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import NamedTuple

from dpsim.contract.collectives.rules import CollectiveRules
from dpsim.contract.interface import DeviceCommunicator, HostCommunicator


def _load(name: str) -> CollectiveRules:
    rules: CollectiveRules = import_module(f"{__name__}.{name}").RULES
    return rules


NAMES = dict.fromkeys(
    name
    for communicator in (HostCommunicator, DeviceCommunicator)
    for name, call in vars(communicator).items()
    if getattr(call, "is_collective", False)
)
"""The collectives of the contract, in its order."""

COLLECTIVES: dict[str, CollectiveRules] = {name: _load(name) for name in NAMES}

UNKNOWN = CollectiveRules()
"""The rules for a recorded collective that the contract does not have."""


class Role(NamedTuple):
    """Whether a member gives its elements, and whether its memory gets the result."""

    gives: bool
    gets: bool


@lru_cache(4096)
def role(op: str, root: int | None, rank: int) -> Role:
    """The role of a member."""
    rules = COLLECTIVES.get(op, UNKNOWN)
    return Role(rules.gives(root, rank), rules.gets(root, rank))
