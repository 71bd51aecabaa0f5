"""Tests a host that is blocked in a plain call, such as a launch. A finding names this call if peers wait for the host,
and not otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dpsim.contract.occupied import Occupied
from dpsim.contract.world import End, Run, World
from dpsim.diagnose.words.told import Told
from tests.checks.handmade import Made
from tests.judged import judge


def blocked_before_a_message(made: Made) -> None:
    """Rank 0 is blocked in a launch after a collective; rank 1 waits for its message."""
    made[0].collective("dp", "main")
    made[0].launch("more", "main")
    made[1].take()


def blocked_before_a_collective(made: Made) -> None:
    """Rank 1 waits for rank 0 in a host collective, before it joins the device collective."""
    made[0].collective("dp", "main")
    made[0].launch("more", "main")
    made[1].collective("cpu", None)


def blocked_without_its_peer(made: Made) -> None:
    """Rank 1 ended without the device collective, so rank 0 is blocked in a launch because of rank 1."""
    made[0].collective("dp", "main")
    made[0].launch("more", "main")


def explained_by_a_death(made: Made) -> None:
    """Rank 1 died, so the collective never ends and rank 0 is blocked in a launch."""
    made[0].collective("dp", "main")
    made[0].launch("more", "main")


HELD_UP = "HANG:HOST:LAUNCH_QUEUE"
CASES: list[tuple[Callable[[Made], None], End, str, str]] = [
    (blocked_before_a_message, "blocked", HELD_UP, "HANG:MAILBOX:NO_MESSAGE"),
    (blocked_before_a_collective, "blocked", HELD_UP, "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS"),
    (blocked_without_its_peer, "finished", "HANG:COLLECTIVE:MISSING_RANK", "HANG:COLLECTIVE:MISSING_RANK"),
    (explained_by_a_death, "died", "HANG:COLLECTIVE:DEAD_RANK", "HANG:COLLECTIVE:DEAD_RANK"),
]


@pytest.mark.parametrize(("script", "end", "stands", "runs_on"), CASES, ids=[case[0].__name__ for case in CASES])
def test_a_blocked_rank_is_named_if_peers_wait(
    script: Callable[[Made], None], end: End, stands: str, runs_on: str
) -> None:
    """The finding names the blocked launch if peers wait for the host. With the same journals, but no host blocked in a
    launch, it names no launch.
    """
    for standing, klass in (((0,), stands), ((), runs_on)):
        made = Made(2)
        script(made)
        found = judge(replace(made.world, launch_queue=1), replace(made.run("blocked", end), standing=standing))
        assert found[0].klass == klass


def test_the_report_names_other_blocked_ranks() -> None:
    made = Made(2)
    for rank in (0, 1):
        made[rank].collective(("dp", "ep")[rank], "main")
        made[rank].launch("more", "main")
    run = replace(made.run("blocked", "blocked"), standing=(0, 1))
    (found,) = judge(replace(made.world, launch_queue=1), run)
    assert found.klass == HELD_UP
    assert "rank 0 is blocked in more" in found.message
    assert "1 op before it on that stream have not ended" in found.message
    assert "rank 1 is blocked in more" in found.details[0]


def hang(world: World, run: Run) -> Told:
    return next(one for one in judge(world, run) if one.check == "deadlock")


@pytest.mark.parametrize("residency", [1, 3])
def test_the_report_names_the_holders_of_slots_for_any_cause_of_the_hang(residency: int) -> None:
    made = Made(2)
    for number in range(residency + 1):
        made[0].collective("dp", f"stream{number}")
    run = made.run("blocked", "finished")
    occupied = Occupied(0, tuple(range(residency)), (residency,))
    found = hang(replace(made.world, residency=residency), replace(run, occupied=(occupied,)))
    assert found.klass == "HANG:COLLECTIVE:MISSING_RANK"
    assert found.details[-1].startswith(
        f"rank 0: its {'only slot is' if residency == 1 else '3 slots are'} held by all_r"
    )
    assert found.details[-1].endswith(" waits for one")
    assert found.details[-1].count("all_reduce") == 2 * (residency + 1)
    for no_waiters in ((), (occupied._replace(waiting=()),)):
        twin = hang(replace(made.world, residency=residency), replace(run, occupied=no_waiters))
        assert not any("slot" in line for line in twin.details)


def test_of_many_ranks_a_few_are_named() -> None:
    made = Made(12)
    for rank in range(11):
        made[rank].collective("dp", "main")
    occupied = tuple(Occupied(rank, (0,), (0,)) for rank in range(11))
    run = replace(made.run(*["blocked"] * 11, "finished"), occupied=occupied)
    found = hang(replace(made.world, residency=1), run)
    assert sum("its only slot" in line for line in found.details) == 8
    assert found.details[-1] == "3 more ranks without a free slot"


def test_a_blocked_host_is_named_beside_the_culprit() -> None:
    made = Made(2)
    blocked_without_its_peer(made)
    run = replace(made.run("blocked", "finished"), standing=(0,))
    found = hang(replace(made.world, launch_queue=1), run)
    assert found.klass == "HANG:COLLECTIVE:MISSING_RANK"
    assert found.details[-1].startswith("rank 0 is blocked in more ")


def test_the_machine_decides_the_first_arrival() -> None:
    """Both ranks issue dp before ep, on two streams. On rank 1, ep got its slots first, as the simulation reports."""
    made = Made(2)
    for rank in (0, 1):
        made[rank].collective("dp", "one")
        made[rank].collective("ep", "other")
        made[rank].read("one")
    blocked = made.run("blocked", "blocked")
    crosswise = Occupied(0, (0,), (1,)), Occupied(1, (1,), (0,))
    found = hang(replace(made.world, residency=3), replace(blocked, occupied=crosswise))
    assert found.klass == "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS"
    assert "a device has 3 places: rank 0: dp #0 before ep #0; rank 1: ep #0 before dp #0" in found.message
    alike = Occupied(0, (0,), (1,)), Occupied(1, (0,), (1,))
    for occupied in ((), alike):
        twin = hang(replace(made.world, residency=3), replace(blocked, occupied=occupied))
        assert twin.klass == "HANG:UNDECIDED"
        assert twin.message.endswith("; ranks have no slot left") == bool(occupied)


def test_transfers_hold_places_too() -> None:
    """Rank 0 occupies its slot with a broadcast, whose root occupies its slot with a receive from rank 0. The send
    waits for a slot.
    """
    made = Made(2)
    made[0].collective("dp", "side", op="broadcast", root=1)
    made[1].collective("dp", "side", op="broadcast", root=1)
    made[0].transfer("send", 1, "main")
    made[1].transfer("recv", 0, "main")
    for rank in (0, 1):
        made[rank].read("side")
    blocked = made.run("blocked", "blocked")
    spinning = Occupied(0, (0,), ()), Occupied(1, (1,), (0,))
    found = hang(replace(made.world, residency=1), replace(blocked, occupied=spinning))
    assert found.klass == "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS"
    assert "a device has 1 place: rank 0: dp #0 before pp from rank 0 to 1 #0; rank 1: pp" in found.message
    twin = hang(replace(made.world, residency=2), replace(blocked, occupied=spinning))
    assert twin.klass == "HANG:UNDECIDED", "rank 0 has a place left"
