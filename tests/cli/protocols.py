"""Protocols for the tests of `dpsim explore` and `dpsim replay`; commands name this module with --module.

Each protocol has two ranks or more. In most, rank 0 polls a mailbox, and the others post to it.
"""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
from pydantic import BaseModel, Field

from dpsim.contract.interface import Rank
from dpsim.contract.registry import register_protocol
from tests.programs import set_to
from tests.sized import Sized, SizedProgram, sized_scenario
from tests.trouble import from_outside

scenario = sized_scenario


@register_protocol("t_two_streams")
class TwoStreams(SizedProgram):
    """Each rank uses two streams."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        for name in ("main", "side"):
            stream = rank.stream(name)
            stream.launch("work", set_to, writes=[stream.alloc(1, "int32", "x")], args=(1,))


@register_protocol("t_breaks_off")
class BreaksOff(SizedProgram):
    """Rank 1 ends before the third of four barriers."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        for rank.step in range(4):
            if rank.rank == 1 and rank.step == 2:
                return
            await rank.host("world").barrier(site="meet")


@register_protocol("t_works_on")
class WorksOn(SizedProgram):
    """Rank 0 works without end, unless its message came before the first look."""

    ends = False

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        if rank.rank:
            return
        rank.send(0, "box", 1, "send")
        await rank.sleep(1_000_000, "doze")  # in time, the message comes first
        came = await rank.mailbox("box").poll("look") is not None
        while not came:
            await rank.stream("main").record().synchronize("wait")
            await rank.mailbox("box").poll("again")
            came = self.ends


@register_protocol("t_works_once")
class WorksOnce(WorksOn):
    """Rank 0 works once."""

    ends = True


@register_protocol("t_look")
class Look(SizedProgram):
    """Rank 0 polls twice, and each result is correct."""

    probes = ("early", "late", "never")

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
        """What rank 0 does with the results of its polls; nothing here."""


@register_protocol("t_lost")
class Lost(Look):
    """If both polls find nothing, rank 0 waits for a message that no rank sends, so it hangs."""

    async def after(self, rank: Rank, seen: list[Any]) -> None:
        if seen == [None, None]:
            await rank.mailbox("other").get("never")


@register_protocol("t_two")
class Two(Look):
    """Two mistakes: rank 0 waits for a message if both polls find nothing, and at a port if both find a message."""

    async def after(self, rank: Rank, seen: list[Any]) -> None:
        if seen == [None, None]:
            await rank.mailbox("other").get("never")
        elif None not in seen:
            await rank.join_store(0, 5, "either")


@register_protocol("t_polls")
class Polls(SizedProgram):
    """Each rank polls for a message that no rank sends."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        while await rank.mailbox("box").poll("poll") is None:
            pass


@register_protocol("t_polls_often")
class PollsOften(SizedProgram):
    """Each rank polls a hundred times, and continues without a message."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        for _ in range(100):
            await rank.mailbox("box").poll("poll")


class Kept:
    """State that outlives a run."""

    runs = 0


@register_protocol("t_state")
class State(Look):
    """Each run differs, because of hidden state that outlives a run."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        Kept.runs += rank.rank == 0
        await rank.mailbox("own").poll(f"poll.{Kept.runs % 2}")
        await super().run(rank, prepared)


@register_protocol("t_deadly")
class Deadly(Look):
    """Ends the process that runs it."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        from_outside(signal.SIGKILL)


@register_protocol("t_cross")
class Cross(SizedProgram):
    """Two ranks send to each other first: they hang if no send ends before its receive."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        if rank.rank > 1:
            return
        group, peer = rank.host("world"), 1 - rank.rank
        await group.send(np.zeros(2, np.int32), peer, site="give")
        await group.recv(2, "int32", peer, site="take")


class Request(BaseModel):
    """An item of work."""

    tokens: int = Field(default=1, ge=1, le=9)


class Work(Sized):
    """A list of requests for the ranks."""

    requests: list[Request] = Field(default=[Request()], min_length=1)


@register_protocol("t_nothing")
class Nothing(SizedProgram):
    """Each rank decides and sleeps, but makes no call that involves another rank. With a second request, the ranks also
    meet in a barrier.
    """

    Params = Work

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.probe("here")
        rank.decide("something", 1, "world")
        await rank.sleep(1, "nap")
        if len(prepared.params.requests) > 1:
            await rank.host("world").barrier()
        await rank.mailbox("box").get("asleep", idle=True)


@register_protocol("t_shares")
class Shares(Look):
    """The ranks change a shared counter."""

    count = 0

    async def run(self, rank: Rank, prepared: Any) -> None:
        self.count += 1
        await super().run(rank, prepared)


@register_protocol("t_small")
class Small(Look):
    """Rank 0 hangs if there is a second request with more than one token. Otherwise the protocol holds."""

    Params = Work

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        requests = prepared.params.requests
        if len(requests) > 1 and requests[1].tokens > 1 and rank.rank == 0:
            await rank.mailbox("other").get("never")


@register_protocol("t_second")
class Second(Look):
    """Fails if the second look sees a message, whichever it is and whatever the first look saw."""

    async def after(self, rank: Rank, seen: list[Any]) -> None:
        assert seen[1] is None


@register_protocol("t_third")
class Third(Look):
    """A world of three ranks fails, and smaller ones hold."""

    async def after(self, rank: Rank, seen: list[Any]) -> None:
        assert rank.host("world").size < 3


@register_protocol("t_exhausts")
class Exhausts(Look):
    """If both polls find nothing, rank 0 raises MemoryError."""

    async def after(self, rank: Rank, seen: list[Any]) -> None:
        if seen == [None, None]:
            raise MemoryError


class Replays(Sized):
    """How often each rank replays its graph."""

    replays: int = Field(default=1, ge=0, le=9)


@register_protocol("t_captures")
class Captures(SizedProgram):
    """Each rank captures a kernel and replays it."""

    Params = Replays

    async def run(self, rank: Rank, prepared: Any) -> None:
        main, graph = rank.stream("main"), rank.graph("kernel")
        buffer = main.alloc(1, "int32", "buffer")
        async with graph.capture(main):
            main.launch("fill", set_to, writes=[buffer], args=(1,))
        for rank.step in range(prepared.params.replays):
            graph.replay(main, "go")
            await buffer.read("read")
