"""The collectives of the contract, one file each: senders, receivers, the result, the wait set, and the arguments that
have to match.

all_reduce.py      every member receives the reduction of all members' elements
broadcast.py       every member receives the elements of the root
all_gather.py      every member receives the elements of all members, one after the other
reduce_scatter.py  every member receives its piece of the reduction
all_to_all.py      every member receives one piece from each member
gather.py          the root receives the elements of all members, one after the other
scatter.py         every member receives its piece of the root's elements
barrier.py         every member waits for all, and no elements move
reduce.py          the root receives the reduction of all members' elements
rules.py           the questions that each of these files answers, with the usual answers
sent.py            the inputs of all members of one collective, and common parts of results
reductions.py      sum, max, min and others
arguments.py       the sizes that a call gives

The simulation (timed and untimed), gloo, NCCL and the checks all use these rules for arguments and results, so they
cannot differ. To add a collective, add a file here with the object `RULES`. Then declare two methods in
`dpsim.contract.interface`, for hosts and for devices, and implement both in `real`, with gloo and with NCCL.
CONTRIBUTING.md has the recipe. The methods that `interface` marks as collectives are the complete list.

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
"""The names of all collectives, in the order of `interface.py`."""

COLLECTIVES: dict[str, CollectiveRules] = {name: _load(name) for name in NAMES}

UNKNOWN = CollectiveRules()
"""The rules for a recorded collective that the contract does not contain."""


class Role(NamedTuple):
    """`gives`: whether a member sends elements. `gets`: whether its memory receives the result."""

    gives: bool
    gets: bool


@lru_cache(4096)
def role(op: str, root: int | None, rank: int) -> Role:
    """Returns the role of a member in a collective."""
    rules = COLLECTIVES.get(op, UNKNOWN)
    return Role(rules.gives(root, rank), rules.gets(root, rank))
