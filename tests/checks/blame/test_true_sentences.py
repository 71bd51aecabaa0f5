"""Tests that the sentences of a finding are true, also where the culprit does not depend on them.

Each program has one mistake. The twins of a sentence are the journals: each test states what they contain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpsim.checks.finding import Culprit, Finding
from dpsim.contract.interface import Rank
from dpsim.diagnose.evidence import later
from dpsim.diagnose.report import report
from dpsim.diagnose.words import text
from tests.checks.handmade import Made
from tests.judged import judge, said
from tests.programs import judged, run, set_to, world_of
from tests.sim.test_threads import done

Program = Callable[[Rank], Any]


def first(ranks: int, program: Program) -> Finding:
    return judged(world_of(ranks, ["world"], ["pipe"]), program)[0]


def test_the_other_calls_with_a_root_are_not_those_of_the_site() -> None:
    made = Made(2)
    for hand in made.hands:
        for site in ("plan", "tokens", "weights"):
            root = int((hand.rank, site) == (1, "weights"))
            hand.collective("dp", "main", op="broadcast", root=root, site=site)
    assert made.findings()[0].ground == ("weights of rank 1: root 0 in 2 of 2 other calls with a root on dp",)


def ring(steps: int, count: Callable[[Rank], int], to: Callable[[Rank], int]) -> Program:
    """Each step: a send to the next rank that the rank awaits after its receive, and a sum."""

    async def program(rank: Rank) -> None:
        world = rank.host("world")
        for rank.step in range(steps):
            work = world.send(np.ones(count(rank), np.int32), to(rank), site="pass")
            block = await world.recv(2, "int32", (rank.rank - 1) % world.size, site="take")
            await work
            await world.all_reduce(block, site="sum")

    return program


def is_at(rank: Rank, number: int, step: int) -> bool:
    return (rank.rank, rank.step) == (number, step)


def test_a_prediction_counts_calls_of_all_ranks_and_not_steps() -> None:
    """The run has 4 steps and 8 calls of the site."""
    found = first(2, ring(4, lambda rank: 4 if is_at(rank, 0, 1) else 2, lambda rank: 1 - rank.rank))
    line = "pass of rank 0: 2 elements in 7 of 7 other calls of all ranks where take had the same size"
    assert found.ground[0] == line


def test_a_send_to_another_rank_is_unreceived_though_that_rank_receives() -> None:
    """Rank 0 receives from rank 2. Rank 1 sends to rank 0 instead of rank 2."""
    program = ring(4, lambda _: 2, lambda rank: 0 if is_at(rank, 1, 2) else (rank.rank + 1) % 3)
    found = first(3, program)
    assert found.culprit is not None
    assert found.culprit.rank == 1
    assert "rank 1 sent to rank 0 (pass, step 2), unreceived; rank 2 waits for a send of rank 1" in found.ground


def test_an_op_that_the_host_left_behind_has_no_result() -> None:
    """Rank 0 received the send of rank 2. Rank 2 did not await it before its receive, which blocks it."""
    world = world_of(3, ["world"])
    program = ring(4, lambda _: 2, lambda rank: 0 if is_at(rank, 1, 2) else (rank.rank + 1) % 3)
    lines = [
        line
        for line in report(run(world, program), judged(world, program), full=True).splitlines()
        if line.startswith("  rank 2 ") and "  <- " in line
    ]
    assert [line.split("  <- ")[1].split("  ")[0] for line in lines] == ["no result", "did not return"]
    assert [line.split()[4] for line in lines] == ["send", "recv"]


def test_a_call_that_was_left_out_has_its_own_op() -> None:
    async def program(rank: Rank) -> None:
        world = rank.host("world")
        for rank.step in range(4):
            if rank.rank == 0:
                for to in world.ranks:
                    rank.send(to, "box", not (to == 2 and rank.step == 2), "tell")
            if await rank.mailbox("box").get("hear"):
                await world.all_reduce(np.ones(1, np.int32), site="sum")
            await world.barrier(site="meet")

    found = first(3, program)
    assert said(found, "left_out") == {"ranks": (2,), "call": "sum (all_reduce on world)", "step": 2}


def test_a_receive_that_names_the_wrong_rank_does_not_accuse_the_named_rank() -> None:
    """Rank 1 receives from the last stage, which never sends."""

    async def program(rank: Rank) -> None:
        pipe, main = rank.device("pipe"), rank.stream("main")
        for rank.step in range(4):
            block = main.alloc(2, "int32", "block")
            main.launch("embed", set_to, writes=[block], args=(1,))
            if rank.rank:
                pipe.recv(block, 2 if is_at(rank, 1, 2) else rank.rank - 1, main, site="stage_in")
            if rank.rank < 2:
                pipe.send(block, rank.rank + 1, main, site="stage_out")
            await block.read("look")
            await rank.host("world").broadcast(np.ones(1, np.int32), 2, site="token")

    found = first(3, program)
    assert found.culprit is not None
    assert (found.culprit.rank, found.culprit.site) == (1, "stage_in")
    assert not said(found, "left_out")
    assert "rank 1 waits in stage_in" in text(found.message)


def test_a_rank_whose_main_thread_returned_is_not_between_two_ops() -> None:
    """The main thread of rank 1 returns, and its loader waits for a flag."""

    async def program(rank: Rank) -> None:
        async def load(own: Any) -> None:
            for own.step in range(4):
                own.flag(f"loaded{own.step}").set("set_loaded")
                await own.flag(f"used{own.step}").wait("wait_used")

        loader = rank.start("loader", load)
        for rank.step in range(4):
            if is_at(rank, 1, 2):
                return
            await rank.flag(f"loaded{rank.step}").wait("wait_loaded")
            rank.flag(f"used{rank.step}").set("set_used")
            total = await rank.host("world").all_reduce(np.ones(1, np.int32), site="sum")
            rank.decide("total", int(total[0]), "world")
        await loader.join("join")

    world = world_of(3, ["world"])
    found = judge(world, done(program, world))[0]
    assert found.ground == ("rank 1 issues no further op in thread main; no other actor stopped",)
    assert found.waits[-1] == "rank 1 issues no further op in thread main"


def test_a_wait_for_a_message_whose_sender_no_record_shows_is_a_possible_wait() -> None:
    """Rank 2 sends its answer to itself. Rank 0 has the answer of rank 1, so it waits for rank 2 alone."""

    async def program(rank: Rank) -> None:
        for rank.step in range(4):
            if rank.rank == 0:
                for _ in range(2):
                    await rank.mailbox("inbox").get("await_done")
            else:
                rank.send(2 if is_at(rank, 2, 2) else 0, "inbox", "done", "report")
            await rank.host("world").barrier(site="meet")

    found = first(3, program)
    waits = "rank 0 waits itself, and may wait, directly or not, for rank 1, which waits in world #2"
    assert (found.culprit, found.why) == (None, waits)


def test_a_left_out_call_has_the_line_of_a_peer_that_makes_it() -> None:
    """Rank 1 leaves out its send in step 2. The twin sends it to another rank, at its own line."""

    def program(skips: bool) -> Program:
        async def steps(rank: Rank) -> None:
            world = rank.host("world")
            for rank.step in range(4):
                odd = is_at(rank, 1, 2)
                if not (odd and skips):
                    world.send(np.ones(2, np.int32), 0 if odd else (rank.rank + 1) % 3, site="pass")
                await world.recv(2, "int32", (rank.rank - 1) % 3, site="take")
                await world.all_reduce(np.ones(1, np.int32), site="sum")

        return steps

    left_out, sent = (first(3, program(skips)).culprit for skips in (True, False))
    assert left_out is not None
    assert sent is not None
    assert (left_out.rank, left_out.site, left_out.of_peer) == (1, "pass", True)
    assert (sent.rank, sent.site, sent.of_peer) == (1, "pass", False)
    assert (left_out.where, left_out.step) == (sent.where, 2)


@pytest.mark.parametrize(("check", "klass"), [("ledger", "MISMATCH:COLLECTIVE:COUNT"), ("fault", "DEATH:RANK")])
def test_the_later_findings_name_no_rank_by_a_comparison_if_the_first_names_none(check: str, klass: str) -> None:
    blamed = Culprit(1, 2, "sum", "here.py:1")
    hang = Finding("deadlock", "HANG:COLLECTIVE:MISSING_RANK", "ranks wait", None, (2, 0), why="rank 1 waits itself")
    more = Finding(check, klass, "later", blamed, (2, 1))
    fact = check == "fault"
    assert later([hang, more]) == [f"{klass} of rank 1 in step 2" if fact else f"{klass} in step 2"]
    assert later([replace(hang, culprit=blamed), more]) == [f"{klass} of rank 1 in step 2"]
