"""Programs in which rank 1 leaves one call out, so that a fault of the kind `insert` has to make it.

    SimBackend().run(world(insert(CALLS["all_reduce"])), "t_inserted", ("all_reduce", False))

The workers of real backends import this module by its name.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol
from dpsim.contract.world import At, Fault, World
from tests.programs import set_to, world_of

CALLS: dict[str, dict[str, Any]] = {
    "all_reduce": {"op": "all_reduce", "count": 4, "reduce": "sum"},
    "max": {"op": "all_reduce", "count": 4, "reduce": "max"},
    "min": {"op": "all_reduce", "count": 4, "reduce": "min"},
    "prod": {"op": "all_reduce", "count": 4, "reduce": "prod"},
    "broadcast": {"op": "broadcast", "count": 4, "root": 0},
    "all_gather": {"op": "all_gather", "count": 1, "sizes": (4, 1)},
    "all_to_all": {"op": "all_to_all", "count": 2, "sizes": (2, 0, 1, 0)},
    "barrier": {"op": "barrier", "count": 0},
    "send": {"op": "send", "count": 4, "peer": 0},
    "recv": {"op": "recv", "count": 4, "peer": 0},
}
"""The call that rank 1 leaves out, by the name of the test."""

LEARNED = {"all_reduce": 28, "max": 28, "min": 28, "prod": 28, "broadcast": 28, "all_gather": 28, "send": 0}
"""The sum of what rank 0 learns on its host from four elements of value 7: rank 1 brings neutral elements, or zeros."""


def insert(name: str, at: At, device: bool = False, **more: Any) -> Fault:
    """Returns the fault that makes rank 1's missing call."""
    call = {"communicator": "dp" if device else "dp_cpu", "dtype": "int32", "site": "odd", **CALLS[name], **more}
    return Fault("insert", 1, at, call | ({"stream": "main"} if device else {}))


def world(*faults: Fault) -> World:
    """Returns a world of two ranks with a host and a device communicator."""
    return world_of(2, ["dp_cpu"], ["dp"], faults=faults, stall_ns=1_000_000_000)


@register_protocol("t_inserted")
class LeavesOut(Program[Any]):
    """Three steps that end with a barrier. In step 1, rank 1 leaves a call out. `prepared`: its name in `CALLS`, and
    whether devices make it.
    """

    async def run(self, rank: Rank, prepared: tuple[str, bool]) -> None:
        name, device = prepared
        for rank.step in range(3):
            if rank.step != 1 or rank.rank == 0:
                await (self.on_device if device else self.on_host)(rank, name)
            await rank.host("dp_cpu").barrier(site="next")

    async def on_host(self, rank: Rank, name: str) -> None:
        group, mine = rank.host("dp_cpu"), np.full(4, 7, np.int32)
        match name:
            case "all_reduce":
                got = group.all_reduce(mine, site="odd")
            case "max" | "min" | "prod":
                got = group.all_reduce(mine, op=name, site="odd")
            case "broadcast":
                got = group.broadcast(mine, 0, site="odd")
            case "all_gather":
                got = group.all_gather(mine[: (4, 1)[rank.rank]], sizes=(4, 1), site="odd")
            case "all_to_all":
                sizes = ((0, 1), (0, 2)) if rank.rank == 0 else ((2, 0), (1, 0))
                got = group.all_to_all(mine[: sum(sizes[0])], source_sizes=sizes[0], output_sizes=sizes[1], site="odd")
            case "barrier":
                await group.barrier(site="odd")
                return
            case _:
                if (name == "recv") == (rank.rank == 0):
                    await group.send(mine, 1 - rank.rank, site="odd")
                    return
                got = group.recv(4, "int32", 1 - rank.rank, site="odd")
        learned = await got
        if rank.step == 1 and rank.rank == 0:
            rank.decide("learned", int(learned.sum()), "dp_cpu", local=True)

    async def on_device(self, rank: Rank, name: str) -> None:
        group, main = rank.device("dp"), rank.stream("main")
        mine = main.alloc(4, "int32", "mine")
        main.launch("fill", set_to, writes=[mine], args=(7,))
        match name:
            case "all_reduce":
                group.all_reduce(mine, main, site="odd")
            case "max" | "min" | "prod":
                group.all_reduce(mine, main, op=name, site="odd")
            case "broadcast":
                group.broadcast(mine, 0, main, site="odd")
            case "all_gather":
                out = main.alloc(5, "int32", "out")
                group.all_gather(out, mine.view(0, (4, 1)[rank.rank]), main, sizes=(4, 1), site="odd")
            case "all_to_all":
                brings, comes = ((0, 1), (0, 2)) if rank.rank == 0 else ((2, 0), (1, 0))
                out = main.alloc(sum(comes), "int32", "out")
                source = mine.view(0, sum(brings))
                group.all_to_all(out, source, main, source_sizes=brings, output_sizes=comes, site="odd")
            case _:
                if (name == "recv") == (rank.rank == 0):
                    group.send(mine, 1 - rank.rank, main, site="odd")
                else:
                    group.recv(mine, 1 - rank.rank, main, site="odd")
        await mine.read("mine.read")
