"""Protocols for the tests of `dpsim explore` and `dpsim replay`; commands name this module with --module.

Each is of two ranks or more; rank 0 looks into a box, the others send to it.
"""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol

SCENARIO = """
name: {name}
protocol: {name}
topology: {{data_parallel_size: {ranks}}}
workload: {{requests: [{{prompt_tokens: 1, output_tokens: 1}}]}}
"""


def scenario(name: str, ranks: int = 2, more: str = "") -> str:
    return SCENARIO.format(name=name, ranks=ranks) + more


@register_protocol("t_look")
class Look(Program[Any]):
    """Looks twice; whatever it sees is right."""

    probes = ("early", "late", "nobody")

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        if rank.rank:
            rank.send(0, "box", rank.rank, "wake")
            return
        box = rank.mailbox("box")
        seen = [await box.poll("first"), await box.poll("second")]
        rank.probe("early" if seen[0] is not None else "late")
        await self.after(rank, seen)

    async def after(self, rank: Rank, seen: list[Any]) -> None:
        """What it makes of what it saw."""


@register_protocol("t_lost")
class Lost(Look):
    """Where both looks come too early, it waits for a message that nobody sends."""

    async def after(self, rank: Rank, seen: list[Any]) -> None:
        if seen == [None, None]:
            await rank.mailbox("other").get("never")


@register_protocol("t_two")
class Two(Look):
    """Two mistakes: one where both looks come too early, another where both come late."""

    async def after(self, rank: Rank, seen: list[Any]) -> None:
        if seen == [None, None]:
            await rank.mailbox("other").get("never")
        elif None not in seen:
            await rank.mailbox("other").get("either")


@register_protocol("t_polls")
class Polls(Program[Any]):
    """Polls until something comes, which nobody sends."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        while await rank.mailbox("box").poll("poll") is None:
            pass


class Kept:
    """State that outlives a run."""

    runs = 0


@register_protocol("t_state")
class State(Look):
    """Each run is another, by what it keeps out of sight."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        Kept.runs += rank.rank == 0
        await rank.mailbox("own").poll(f"poll.{Kept.runs % 2}")
        await super().run(rank, prepared)


@register_protocol("t_deadly")
class Deadly(Look):
    """Ends the process that runs it."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@register_protocol("t_cross")
class Cross(Program[Any]):
    """Both send first: it hangs if no send ends before it is received."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        if rank.rank > 1:
            return
        group, peer = rank.host("dp_cpu"), 1 - rank.rank
        await group.send(np.zeros(2, np.int32), peer, site="give")
        await group.recv(2, "int32", peer, site="take")


@register_protocol("t_nothing")
class Nothing(Program[Any]):
    """Decides and sleeps, and issues nothing; with a second request, it does."""

    def prepare(self, args: Any) -> Any:
        return args.requests

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.probe("here")
        rank.decide("something", 1, "dp_cpu")
        await rank.sleep(1, "nap")
        if len(prepared) > 1:
            await rank.host("dp_cpu").barrier()
        await rank.mailbox("box").get("asleep", idle=True)


@register_protocol("t_shares")
class Shares(Look):
    """Its ranks count together."""

    count = 0

    async def run(self, rank: Rank, prepared: Any) -> None:
        self.count += 1
        await super().run(rank, prepared)


@register_protocol("t_small")
class Small(Look):
    """Wrong where a second request comes with a prompt of two tokens."""

    def prepare(self, args: Any) -> Any:
        return args.requests

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        if len(prepared) > 1 and prepared[1][1] > 1 and rank.rank == 0:
            await rank.mailbox("other").get("never")


@register_protocol("t_exhausts")
class Exhausts(Look):
    """Where both looks come too early there is no memory left; before that the ranks decide differently."""

    async def after(self, rank: Rank, seen: list[Any]) -> None:
        if seen == [None, None]:
            raise MemoryError
