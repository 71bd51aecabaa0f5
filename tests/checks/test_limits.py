"""A host that stands in a plain call: it is named where peers wait for it, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dpsim.checks.judge import judge
from dpsim.world import End
from tests.checks.handmade import Made


def stands_before_a_message(made: Made) -> None:
    """Rank 0 stands in a launch behind a collective; rank 1 waits for its message."""
    made[0].collective("dp", "main")
    made[0].launch("more", "main")
    made[1].take()


def stands_before_a_collective(made: Made) -> None:
    """Rank 1 waits for rank 0 in a collective of the hosts, before it joins that of the device."""
    made[0].collective("dp", "main")
    made[0].launch("more", "main")
    made[1].collective("cpu", None)


def left_alone(made: Made) -> None:
    """Rank 1 has ended without the collective: that rank 0 stands in a launch is its fault."""
    made[0].collective("dp", "main")
    made[0].launch("more", "main")


def explained_by_a_death(made: Made) -> None:
    """Rank 1 died: what it takes part in never ends."""
    made[0].collective("dp", "main")
    made[0].launch("more", "main")


HELD_UP = "HANG:HOST:LAUNCH_QUEUE"
CASES: list[tuple[Callable[[Made], None], End, str, str]] = [
    (stands_before_a_message, "blocked", HELD_UP, "HANG:MAILBOX:NO_MESSAGE"),
    (stands_before_a_collective, "blocked", HELD_UP, "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS"),
    (left_alone, "finished", "HANG:COLLECTIVE:MISSING_RANK", "HANG:COLLECTIVE:MISSING_RANK"),
    (explained_by_a_death, "died", "HANG:COLLECTIVE:DEAD_RANK", "HANG:COLLECTIVE:DEAD_RANK"),
]


@pytest.mark.parametrize(("script", "end", "stands", "runs_on"), CASES, ids=[case[0].__name__ for case in CASES])
def test_who_stands_is_named_where_peers_wait_for_it(
    script: Callable[[Made], None], end: End, stands: str, runs_on: str
) -> None:
    """The twin: the same journals of a run in which nobody stood so."""
    for standing, klass in (((0,), stands), ((), runs_on)):
        made = Made(2)
        script(made)
        found = judge(replace(made.world, launch_queue=1), replace(made.run("blocked", end), standing=standing))
        assert found[0].klass == klass


def test_the_others_that_stand_are_told_as_well() -> None:
    made = Made(2)
    for rank in (0, 1):
        made[rank].collective(("dp", "ep")[rank], "main")
        made[rank].launch("more", "main")
    run = replace(made.run("blocked", "blocked"), standing=(0, 1))
    (found,) = judge(replace(made.world, launch_queue=1), run)
    assert found.klass == HELD_UP
    assert "rank 0 stands in more" in found.message
    assert "1 op before it on that stream have not ended" in found.message
    assert "rank 1 stands in more" in found.details[0]
