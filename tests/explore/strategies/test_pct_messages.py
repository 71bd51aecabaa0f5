"""Tests that PCT delays a message whatever the priority of its sender, and independently of the sender's other
messages.

PCT is the sampling strategy that gives each actor a random priority and runs the actor of the highest one.
"""

from __future__ import annotations

import pytest

from dpsim.contract.events import actor
from dpsim.contract.interface import Rank
from dpsim.explore.strategies import pct
from tests.programs import explored, world_of

RUNS = 200


async def overtakes(rank: Rank) -> None:
    """Rank 0 sends to rank 1, and then to rank 2, which sends to rank 1. An assertion fails if the message of rank 2
    arrives first.
    """
    if rank.rank == 0:
        rank.send(1, "box", "direct", "direct")
        rank.send(2, "box", "go", "go")
    elif rank.rank == 2:
        await rank.mailbox("box").get("wait")
        rank.send(1, "box", "forwarded", "forward")
    else:
        assert await rank.mailbox("box").get("first") == "direct"


async def later(rank: Rank) -> None:
    """Rank 0 continues for several polls while its first message is in flight. An assertion of rank 1 fails if that
    message is still in flight when a later one has arrived.
    """
    if rank.rank == 0:
        rank.send(1, "box", 1, "send")
        for _ in range(3):
            await rank.mailbox("own").poll("work")
        rank.send(1, "other", 1, "done")
    elif rank.rank == 1:
        await rank.mailbox("other").get("wait")
        assert await rank.mailbox("box").poll("look") is not None


SCRIPTS = pytest.mark.parametrize("script", [overtakes, later])


@SCRIPTS
def test_pct_finds_a_late_message(script: object) -> None:
    result = explored(world_of(3), script, "pct", schedules=RUNS)  # type: ignore[arg-type]
    assert result.verdict == "violated"
    assert result.exploration.runs < 60


@SCRIPTS
def test_a_message_under_the_priority_of_its_sender_is_hardly_ever_late(
    script: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A faulty variant of PCT gives a message the priority of its sender. Of two steps with equal priority it takes the
    one that was ready first, so it does not find the bug in 200 runs.
    """
    monkeypatch.setattr(pct, "continuing_actor", actor)
    result = explored(world_of(3), script, "pct", schedules=RUNS)  # type: ignore[arg-type]
    assert result.verdict == "sampled"
