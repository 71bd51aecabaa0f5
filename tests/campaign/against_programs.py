"""Programs and a backend for tests of runs that are held against a search.

The backend `altered` runs a world on the simulation in time, and then changes the journals as a test asks. So a test
has a reality that differs from the search in one place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpsim.contract.interface import Rank
from dpsim.contract.ops import KIND, LEARNED_OUTCOME, SITE
from dpsim.contract.registry import register_protocol
from dpsim.contract.world import Progress, Run, World
from dpsim.sim.backend import SimBackend
from tests.sized import SizedProgram

MS = 1_000_000


@register_protocol("t_asked_twice")
class AskedTwice(SizedProgram):
    """Rank 0 polls for a message of each other rank, so each poll has two outcomes. All meet before and after."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        world = rank.host("world")
        await world.barrier(site="meet")
        if rank.rank:
            rank.send(0, f"from{rank.rank}", rank.rank, "send")
            await rank.sleep(2 * MS, "rest")
        else:
            for other in range(1, len(world.ranks)):
                await rank.mailbox(f"from{other}").poll(f"poll{other}")
        total = await world.all_reduce(np.array([rank.rank], np.int32), site="sum")
        rank.decide("total", int(total[0]), "world")


@register_protocol("t_one_of_two")
class OneOfTwo(SizedProgram):
    """Rank 0 answers with what its poll found, and decides it, too. So both ranks learn the same."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        if rank.rank:
            rank.send(0, "box", 1, "send")
            await rank.mailbox("answer").get("got")
        else:
            came = await rank.mailbox("box").poll("poll") is not None
            rank.send(1, "answer", came, "reply")


@register_protocol("t_waits_for_answer")
class WaitsForAnswer(SizedProgram):
    """Rank 0 waits 50 ms for the answer of rank 1. In no schedule the time-out passes early."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        if rank.rank == 0:
            await rank.mailbox("answer").get("answer", timeout_ns=50 * MS)
        elif rank.rank == 1:
            rank.send(0, "answer", 7, "reply")


@register_protocol("t_waits_for_sleeper")
class WaitsForSleeper(SizedProgram):
    """Rank 0 waits 50 ms for rank 1, which sleeps for 60 ms, and then for a message that comes at once."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        if rank.rank == 0:
            await rank.mailbox("answer").get("answer", timeout_ns=50 * MS)
            await rank.mailbox("more").get("more")
        elif rank.rank == 1:
            await rank.sleep(60 * MS, "sleep")
            rank.send(0, "answer", 7, "reply")
            rank.send(0, "more", 1, "told")


@register_protocol("t_sums_floats")
class SumsFloats(SizedProgram):
    """The order of the terms of a sum counts. Its result is broadcast, and then a whole number is."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        world = rank.host("world")
        terms = np.array([[1e8, 1.0, -1e8][rank.rank % 3]], np.float32)
        total = await world.all_reduce(terms, site="sum")
        await world.broadcast(total, 0, site="told")
        await world.broadcast(np.array([3], np.int32), 0, site="number")


PLANTED = False
"""True only in the process of a test. A worker process imports this module anew, so there it is False."""


@register_protocol("t_outside")
class Outside(SizedProgram):
    """If the poll of rank 0 found a message, rank 0 decides by a variable of the module, outside of the contract."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        world = rank.host("world")
        await world.barrier(site="meet")
        if rank.rank == 1:
            rank.send(0, "box", 1, "send")
        elif rank.rank == 0:
            came = await rank.mailbox("box").poll("poll") is not None
            rank.decide("outside", came and PLANTED, "world", local=True)
        await world.barrier(site="end")


Alter = Callable[[Run], None]


class Altered:
    """The backend. `worlds`: those that it ran."""

    name = "altered"

    def __init__(self, alter: Alter = lambda run: None) -> None:
        self.alter = alter
        self.worlds: list[World] = []

    def unavailable(self, size: int) -> str | None:
        return None

    def run(self, world: World, program: str, args: Any, progress: Progress | None = None) -> Run:
        self.worlds.append(world)
        run = SimBackend().run(world, program, args, progress)
        self.alter(run)
        return run

    def close(self) -> None:
        pass


def learns(site: str, value: Any, rank: int = 0) -> Alter:
    """Returns an alteration: a rank learns another value at a site."""

    def alter(run: Run) -> None:
        journal = run.journals[rank]
        for at, raw in enumerate(journal):
            if raw[KIND] == "learned" and raw[SITE] == site:
                journal[at] = (*raw[:LEARNED_OUTCOME], value)

    return alter


def decides(label: str, value: Any, rank: int = 0) -> Alter:
    """Returns an alteration: a rank decides another value."""

    def alter(run: Run) -> None:
        journal = run.journals[rank]
        for at, raw in enumerate(journal):
            if raw[KIND] == "decision" and raw[SITE] == label:
                journal[at] = (*raw[:-2], value, raw[-1])

    return alter


def raises(rank: int = 0) -> Alter:
    """Returns an alteration: the program of a rank raises at its end, and the others wait for it without end."""

    def alter(run: Run) -> None:
        for other in range(len(run.journals)):
            last = run.journals[other].pop()
            run.ends[other] = "blocked"
            if other == rank:
                run.ends[other] = "raised"
                run.journals[other].append(("raised", *last[1:3], "ValueError", 0, "here.py:7", "no such thing"))

    return alter
