"""Tests the order of the ops that a rank puts on one communicator. They run in that order, on all streams, as in NCCL.

For example, a rank posts a receive on a side stream, before a send on the main stream of the same communicator. The
send waits until the receive has ended. If the peer answers only after it has received, both hang. On two communicators
over the same ranks, the send does not wait.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.contract.interface import Rank
from tests.sim.programs import everywhere, filled, numbers, usual_world

LARGE = [1] * 40_000  # too large for an eager send


def answered(back: str) -> Any:
    """Rank 0 posts its receive first, and then sends; rank 1 answers what it received."""

    async def script(rank: Rank) -> Any:
        main, side = rank.stream("main"), rank.stream("side")
        if rank.rank == 1:
            x = filled(main, [0])
            rank.device("d").recv(x, 0, main)
            rank.device(back).send(x, 0, main)
            return None
        answer = filled(side, [0])
        rank.device(back).recv(answer, 1, side)
        rank.device("d").send(filled(main, [5]), 1, main)
        return numbers(await answer.read("read"))

    return script


def behind_a_send(group: str) -> Any:
    """Rank 0 sends before it reduces, and rank 1 receives after it has reduced."""

    async def script(rank: Rank) -> Any:
        main, side = rank.stream("main"), rank.stream("side")
        many, one = filled(main, LARGE), filled(side, [1])
        if rank.rank == 0:
            rank.device("d").send(many, 1, main)
            rank.device(group).all_reduce(one, side)
        else:
            rank.device(group).all_reduce(one, side)
            await one.read("read")
            rank.device("d").recv(many, 0, main)
        return numbers(await one.read("read"))

    return script


@pytest.mark.parametrize("program", [answered, behind_a_send])
def test_two_communicators_do_not_block_each_other(program: Any) -> None:
    for seen in everywhere(program("e"), usual_world(2)):
        assert seen.run.finished, seen.mode
        assert not seen.findings, seen.mode


def test_an_early_receive_blocks_a_send_on_the_same_communicator() -> None:
    for seen in everywhere(answered("d"), usual_world(2)):
        assert seen.run.ends == ["blocked", "blocked"], seen.mode
        assert seen.findings[0].klass.startswith("HANG"), seen.mode


def test_a_rendezvous_blocks_a_collective_on_the_same_communicator() -> None:
    ends = {seen.mode: seen.run.ends for seen in everywhere(behind_a_send("d"), usual_world(2))}
    assert ends["timed"] == ends["last"] == ["blocked", "blocked"]
    assert ends["first"] == ["finished", "finished"], "an eager send does not"
