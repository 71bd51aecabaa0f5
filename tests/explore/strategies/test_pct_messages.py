"""Under PCT a message may be late whatever its sender's priority, and one of a sender's messages later than another."""

from __future__ import annotations

import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.schedule import actor
from dpsim.explore.strategies import pct
from tests.programs import explored, world_of

RUNS = 200


async def overtakes(rank: Rank) -> None:
    """Rank 0 tells rank 1, and then rank 2, which tells rank 1: that may come first. Wrong only then."""
    if rank.rank == 0:
        rank.send(1, "box", "direct", "direct")
        rank.send(2, "box", "go", "go")
    elif rank.rank == 2:
        await rank.mailbox("box").get("wait")
        rank.send(1, "box", "forwarded", "forward")
    else:
        assert await rank.mailbox("box").get("first") == "direct"


async def later(rank: Rank) -> None:
    """Rank 0 goes on for long while its message is under way. Wrong only if it has not come by then."""
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
    """The twin: what is next of two ops of one actor is what was ready first."""
    monkeypatch.setattr(pct, "goes_on", actor)
    result = explored(world_of(3), script, "pct", schedules=RUNS)  # type: ignore[arg-type]
    assert result.verdict == "sampled"
