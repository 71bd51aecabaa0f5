"""Inserted: makes a call that a fault inserts into the program of a rank.

    Fault("insert", 1, At("dp.read", 3), {"communicator": "dp_cpu", "op": "all_reduce", "count": 8, "dtype": "int32"})

The rank makes the call through its own communicator. So the call has a record, and pairs up with the calls of its peers
like any other. The rank does not wait for the result, because its program does not know of the call. The contribution
is the neutral element of the reduction, and zeros in a call without one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from dpsim.backend.journal.issue import Issue, plan
from dpsim.contract.dtypes import CARRIERS, NUMPY, as_bfloat16
from dpsim.contract.interface import DeviceCommunicator, HostCommunicator, Stream
from dpsim.contract.world import Fault


class MakesCalls(Protocol):
    """The parts of a rank that an inserted call uses."""

    rank: int
    hosts: dict[str, HostCommunicator]
    devices: dict[str, DeviceCommunicator]

    def stream(self, name: str) -> Stream: ...


def make_call(rank: MakesCalls, fault: Fault) -> object:
    """Makes the inserted call. Returns what a program would await, or None for a device. Raises ValueError if the rank
    is no member of the communicator.
    """
    call = fault.change
    site, issue = call["site"], _issue(call)
    neutral = neutral_of(issue.dtype, issue.reduce)
    members: list[Any] = [*rank.hosts.values(), *rank.devices.values()]
    group = next((one for one in members if one.name == call["communicator"]), None)
    if group is None:
        raise ValueError(f"insert: rank {rank.rank} is no member of {call['communicator']}")
    comes = issue.count if issue.peer is not None else issue.rules.count(issue.call, group.index, group.size)
    if group in rank.hosts.values():
        array = np.repeat(neutral, issue.count)
        begin, told = (group._transfer, issue) if issue.peer is not None else (group._collective, issue.call)
        return begin(told, array, (comes,), site)
    stream, dtype = rank.stream(call["stream"]), call["dtype"]
    source = output = stream.alloc(issue.count, dtype, site)
    carried = neutral.view(CARRIERS[issue.dtype]) if issue.dtype in CARRIERS else neutral
    stream.launch(site, _fill, writes=[source], args=(carried[0].item(),))
    if issue.peer is not None:
        return group._transfer(issue, source, stream, site)
    if comes != issue.count:
        output = stream.alloc(comes, dtype, site)
    return group._collective(issue.call, output, source, stream, site)


def _issue(call: Mapping[str, Any]) -> Issue:
    fields = (
        call["op"],
        call["count"],
        call["dtype"],
        call.get("root"),
        call.get("reduce"),
        tuple(call.get("sizes", ())),
    )
    return plan(*fields, call.get("peer"))


def neutral_of(dtype: str, reduce: str | None) -> np.ndarray[Any, Any]:
    """Returns the element that changes no result of a reduction, as an array of one. An average has none: it gets a
    zero.
    """
    bits = dtype == "bfloat16"
    kind: Any = np.dtype(np.float32) if bits else NUMPY[dtype]
    least: Any
    most: Any
    least, most = (False, True) if kind.kind == "b" else (-np.inf, np.inf)
    if kind.kind in "iu":
        least, most = np.iinfo(kind).min, np.iinfo(kind).max
    all_bits = -1 if kind.kind == "i" else most
    one = np.full(1, {"prod": 1, "band": all_bits, "max": least, "min": most}.get(str(reduce), 0), kind)
    return as_bfloat16(one) if bits else one


def _fill(array: Any, value: Any) -> None:
    array[...] = value
