"""Programs that tests run on gloo and also explore. gloo's workers import this module by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpsim.contract.interface import HostArray, HostCommunicator, Rank
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol

LATE_NS = 400_000_000


async def one_call(host: HostCommunicator, what: str) -> HostArray:
    """Calls the host collective of that name. Each piece has one element of 4 bytes or none."""
    match what:
        case "broadcast":
            return await host.broadcast(np.ones(1, np.int32), 0)
        case "scatter":
            return await host.scatter(np.ones(host.size, np.int32), 0)
        case "gather":
            return await host.gather(np.ones(1, np.int32), 0)
        case "all_reduce":
            return await host.all_reduce(np.ones(4, np.int32))
        case "all_reduce of nothing":
            return await host.all_reduce(np.zeros(0, np.int32))
        case "reduce_scatter":
            return await host.reduce_scatter(np.ones(4, np.int32))
        case "all_gather":
            return await host.all_gather(np.ones(1, np.int32))
        case "all_gather, rank 0 brings nothing":
            sizes = [int(index > 0) for index in range(host.size)]
            return await host.all_gather(np.ones(sizes[host.index], np.int32), sizes=sizes)
        case "all_to_all of nothing":
            none = [0] * host.size
            return await host.all_to_all(np.zeros(0, np.int32), source_sizes=none, output_sizes=none)
        case "all_to_all, rank 0 gets nothing":
            source = [int(host.index == 0 or index > 0) for index in range(host.size)]
            output = [int(index == 0 or host.index > 0) for index in range(host.size)]
            return await host.all_to_all(np.ones(sum(source), np.int32), source_sizes=source, output_sizes=output)
    raise ValueError(what)


@register_protocol("sound_late")
class Late(Program[Mapping[str, Any]]):
    """Rank `late` polls for a message, and then joins the collective `what`. A rank that ends the collective sends it a
    message. At its end the late rank raises if the message arrived before it joined.
    """

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        rank.step = 0
        host, late = rank.host("h"), prepared["late"]
        await host.barrier(site="connected")  # gloo connects two ranks at their first call
        told = None
        if rank.rank == late:
            await rank.sleep(LATE_NS, "late")
            told = await rank.mailbox("told").poll("poll")
        await one_call(host, prepared["what"])
        if rank.rank != late:
            rank.send(late, "told", rank.rank, "tell")
        assert told is None, f"rank {told} was through before rank {late} came"


@register_protocol("sound_chain")
class Chain(Program[Mapping[str, Any]]):
    """The last rank sleeps. Then each rank sends a message to the rank before it. Rank 0 waits with a time-out, and
    raises if the time-out passes.
    """

    async def run(self, rank: Rank, prepared: Mapping[str, Any]) -> None:
        rank.step = 0
        box = rank.mailbox("told")
        await rank.host("h").barrier(site="connected")
        if rank.rank == prepared["ranks"] - 1:
            await rank.sleep(prepared["sleep_ns"], "late")
        elif rank.rank:
            await box.get("hear")
        if rank.rank:
            rank.send(rank.rank - 1, "told", rank.rank, "tell")
        else:
            assert await box.get("wait", timeout_ns=prepared["timeout_ns"]) is not None, "nothing came"
