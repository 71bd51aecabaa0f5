"""The programs `conformance_aborts` and `conformance_aborts_beside`: ranks abort communicators. A program must declare
that with `aborts`.

Each rank aborts its device communicator and a host communicator in step 1. A rank with an odd index aborts them while a
barrier and a sum are in progress. After its abort, every wait or call on either communicator raises `Aborted`. What it
means for peers is in `abort_looks.py`, in step 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsim.contract.interface import Aborted, Rank
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol
from dpsim.testing.conformance.abort_looks import abort_looks, aborted, beside
from dpsim.testing.conformance.ground import Round, expect, refused

KEEPS = "work of a device that had ended before the abort keeps its results. A wrong backend raises Aborted"


@register_protocol("conformance_aborts")
class ConformanceAborts(Program[Any]):
    """Ranks reduce a sum, and then abort on the host and on the device. It has no arguments.

    Raises AssertionError if the backend does not follow the contract.
    """

    aborts = True

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        at = Round(rank, 0)
        group, device, main = at.host, at.device, at.main
        total = await group.all_reduce(np.ones(1, np.int32), site="conformance.sum")
        expect(
            "a sum before",
            int(total[0]),
            group.size,
            (
                "an all_reduce returns the sum over all members. A wrong backend loses the input of a "
                "member, or adds it twice"
            ),
        )
        buffer = at.put(4, "int32")
        device.all_reduce(buffer, main, op="max", site="conformance.max")
        largest = await buffer.read("conformance.read")
        await abort_looks(at)
        rank.step = 1
        begun = None
        if group.index % 2:
            begun = group.barrier(site="conformance.begun")
            device.all_reduce(buffer, main, site="conformance.begun.device")
        for _ in range(2):
            group.abort(site="conformance.abort")
            device.abort(site="conformance.abort.device")
        if begun is not None:
            await aborted("the await of a barrier that began before the abort", begun)
            await aborted("a wait for an event behind that sum", main.record().synchronize("conformance.synchronize"))
            await aborted("a read behind a sum that the abort interrupted", buffer.read("conformance.read.behind"))
        else:
            got = await buffer.read("conformance.read.again")
            expect("a read of a maximum that was over before the abort", got, largest, KEEPS)
        refused(Aborted, "a barrier", lambda: group.barrier(site="refused"))
        refused(Aborted, "a sum on the device", lambda: device.all_reduce(buffer, main, site="refused"))
        other = at.put(4, "int32", rank.stream("side"))
        got = await other.read("conformance.read.side")
        expect(
            "a read on a stream without calls of the communicator",
            got,
            at.line(rank.rank, 4, "int32"),
            (
                "an abort affects only the streams that run calls of the communicator. A wrong backend "
                "also stops other streams"
            ),
        )


@register_protocol("conformance_aborts_beside")
class ConformanceAbortsBeside(Program[Any]):
    """A thread waits while another one aborts. It has no arguments.

    Raises AssertionError if the backend does not follow the contract.
    """

    aborts = threaded = True

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        await beside(Round(rank, 0))
