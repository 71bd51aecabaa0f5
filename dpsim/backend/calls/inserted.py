"""Inserted: makes a call that a fault inserts into the program of a rank.

    Fault("insert", 1, At("dp.read", 3), {"communicator": "dp_cpu", "op": "all_reduce", "count": 8, "dtype": "int32"})

The rank makes the call through its own communicator. So the call has a record, and pairs up with the calls of its peers
like any other. The rank does not wait for the result, because its program does not know of the call. The contribution
is the neutral element of the reduction, and zeros in a call without one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsim.backend.journal.issue import Issue, plan
from dpsim.contract.dtypes import NUMPY
from dpsim.contract.world import Fault

if TYPE_CHECKING:
    from dpsim.backend.calls.rank import JournaledRank


def make_call(rank: JournaledRank, fault: Fault) -> None:
    """Makes the inserted call. Raises ValueError if the rank is no member of the communicator."""
    call = fault.change
    site, issue, neutral = call["site"], _issue(call), _neutral(call)
    members = {one.name: one for one in (*rank.hosts.values(), *rank.devices.values())}
    group: Any = members.get(call["communicator"])
    if group is None:
        raise ValueError(f"insert: {rank.journal.rank} is no member of {call['communicator']}")
    comes = issue.count if issue.peer is not None else issue.rules.count(issue.call, group.index, group.size)
    if group in rank.hosts.values():
        array = np.full(issue.count, neutral, NUMPY[issue.dtype])
        begin, told = (group._transfer, issue) if issue.peer is not None else (group._collective, issue.call)
        begin(told, array, (comes,), site)
        return
    stream = rank.stream(call["stream"])
    source = output = stream.alloc(issue.count, call["dtype"], site)
    stream.launch(site, _fill, writes=[source], args=(neutral,))
    if issue.peer is not None:
        group._transfer(issue, source, stream, site)
        return
    if comes != issue.count:
        output = stream.alloc(comes, call["dtype"], site)
    group._collective(issue.call, output, source, stream, site)


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


def _neutral(call: Mapping[str, Any]) -> Any:
    """Returns the value that changes no sum, maximum or minimum."""
    kind, reduce = np.dtype(NUMPY[call["dtype"]]), call.get("reduce")
    if reduce in ("max", "min") and kind.kind in "iuf":
        limits: Any = np.iinfo(kind) if kind.kind in "iu" else np.finfo(kind)
        return (int if kind.kind in "iu" else float)(limits.min if reduce == "max" else limits.max)
    return {"prod": 1, "band": -1}.get(str(reduce), 0)


def _fill(array: Any, value: Any) -> None:
    array[...] = value
