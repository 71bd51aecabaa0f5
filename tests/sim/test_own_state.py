"""Tests that state of the process which a rank changes reaches no other rank, and no later run."""

from __future__ import annotations

import decimal
import os
import random
import sys
from typing import Any

import numpy as np
import pytest

from dpsim.contract.interface import Rank
from dpsim.sim.backend import SimBackend, SimRun
from dpsim.sim.hosts.own_state import OwnState
from tests.programs import Scripted, explored, world_of

pytestmark = pytest.mark.runs_once


def test_each_rank_has_its_own_state_of_the_process() -> None:
    seen: dict[int, list[Any]] = {}

    def state() -> list[Any]:
        mask = os.umask(0o22)
        os.umask(mask)
        numbers = [os.getcwd(), mask, sys.getrecursionlimit(), decimal.getcontext().prec, np.geterr()["divide"]]
        return [*numbers, random.random(), np.random.random()]

    async def script(rank: Rank) -> None:
        group = rank.host("h")
        random.seed(rank.rank), np.random.seed(rank.rank)
        await group.barrier(site="seeded")
        if rank.rank == 0:
            os.chdir("/")
            os.umask(0o7)
            sys.setrecursionlimit(4_321)
            decimal.getcontext().prec = 5
            np.seterr(divide="raise")
        await group.barrier(site="changed")
        seen[rank.rank] = state()

    random.seed(7), np.random.seed(7)
    before = state()
    random.seed(7), np.random.seed(7)
    run = SimBackend().run_program(world_of(3, hosts=["h"]), Scripted(script), None)
    assert run.finished
    assert run.drawn == ()
    assert state() == before
    drawn = {rank: [random.Random(rank).random(), np.random.RandomState(rank).random()] for rank in range(3)}
    assert seen == {0: ["/", 0o7, 4_321, 5, "raise", *drawn[0]], **{rank: before[:5] + drawn[rank] for rank in (1, 2)}}


def test_ranks_that_seed_no_generator_draw_different_numbers() -> None:
    """As separate processes do. In another run they draw the same, so that a search can repeat it."""

    def drawn(**settings: Any) -> tuple[dict[int, float], SimRun]:
        found: dict[int, float] = {}

        async def script(rank: Rank) -> None:
            found[rank.rank] = random.random()
            await rank.host("h").barrier(site="meet")

        return found, SimBackend(**settings).run_program(world_of(3, hosts=["h"]), Scripted(script), None)

    (first, run), (second, _), (third, _) = drawn(), drawn(), drawn(elsewhere=True)
    assert len(set(first.values())) == 3
    assert first == second
    assert not set(first.values()) & set(third.values())
    assert [one.place.rank for one in run.drawn] == [0, 1, 2]


async def meets_in_another_folder(rank: Rank) -> None:
    if rank.rank == 0:
        os.chdir("/")
    await rank.host("h").barrier(site="meet")
    rank.decide("in_root", os.getcwd() == "/", "h")


def test_the_folder_of_one_rank_is_not_that_of_another() -> None:
    (finding,) = explored(world_of(2, hosts=["h"]), meets_in_another_folder).findings
    assert finding.klass == "DISAGREEMENT:IN_ROOT"


def test_a_shared_folder_is_a_false_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin: ranks keep nothing."""
    monkeypatch.setattr(OwnState, "enter", lambda self, rank: None)
    assert explored(world_of(2, hosts=["h"]), meets_in_another_folder).verdict == "proven"


def test_host_threads_of_a_rank_share_its_folder() -> None:
    class Threaded(Scripted):
        threaded = True

    seen: dict[int, str] = {}

    async def script(rank: Rank) -> None:
        async def beside(rank: Rank) -> None:
            os.chdir("/")

        if rank.rank == 0:
            await rank.start("beside", beside).join(site="join")
        await rank.host("h").barrier(site="meet")
        seen[rank.rank] = os.getcwd()

    before = os.getcwd()
    assert SimBackend().run_program(world_of(2, hosts=["h"]), Threaded(script), None).finished
    assert seen == {0: "/", 1: before}
