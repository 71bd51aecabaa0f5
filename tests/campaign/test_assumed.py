"""A verdict names what it assumes: all that its world was not asked to do, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpsim.campaign.explored import assumed
from dpsim.contract.interface import Rank
from dpsim.contract.world import Kill, World
from tests.programs import Script, explored, touch

LAYOUT = "allocations wait where this layout takes new memory"
ALL = ("no rank dies", "unlimited residency", "unlimited launch queue", "no allocation waits")
EVERYTHING = World(
    2,
    (),
    kills=(Kill(0, partial=True, loses_mail=True), Kill(1, partial=True, loses_mail=True)),
    residency=4,
    launch_queue=1024,
    alloc_synchronises=True,
)


async def sleeps(rank: Rank) -> None:
    rank.stream("main").launch("touch", touch)
    await rank.sleep(1, "nap")


async def raises(rank: Rank) -> None:
    raise ValueError("oh")


def test_a_plain_world_assumes_all_of_it() -> None:
    assert assumed(World(2, ())) == ALL


def test_a_world_that_was_asked_for_everything_assumes_the_layout_alone() -> None:
    assert assumed(EVERYTHING) == (LAYOUT,)


@pytest.mark.parametrize(
    ("world", "assumes"),
    [
        (replace(EVERYTHING, kills=()), ["no rank dies"]),
        (replace(EVERYTHING, kills=EVERYTHING.kills[1:]), ["only rank 1 dies"]),
        (
            replace(EVERYTHING, kills=(Kill(0), Kill(1))),
            [
                "what the dead began goes on on hosts, and on devices what waits for all ends for all or none",
                "what the dead posted arrives",
            ],
        ),
        (
            replace(EVERYTHING, kills=(EVERYTHING.kills[0], Kill(1, partial=True))),
            ["what the dead posted arrives"],
        ),
        (replace(EVERYTHING, residency=None), ["unlimited residency"]),
        (replace(EVERYTHING, launch_queue=None), ["unlimited launch queue"]),
        (replace(EVERYTHING, alloc_synchronises=False), ["no allocation waits"]),
    ],
)
def test_each_option_takes_its_assumption_away(world: World, assumes: list[str]) -> None:
    assert [one for one in assumed(world) if one != LAYOUT] == assumes
    assert (LAYOUT in assumed(world)) == world.alloc_synchronises


def test_a_promise_of_a_program_is_assumed() -> None:
    assert assumed(EVERYTHING, by_flags=True) == (LAYOUT, "flags order what host threads share")


@pytest.mark.parametrize("strategy", ["dpor", "fifo"])
@pytest.mark.parametrize("how", ["message", "own message", "store", "join"])
def test_a_verdict_with_a_time_out_says_that_it_assumes_a_long_one(how: str, strategy: str) -> None:
    """Whoever is only slow is waited for: a proof says nothing of a peer that is declared dead too early. It says so
    also where no run waited, since what was waited for had come: that is no order of its own.
    """

    def waiting(timeout_ns: int | None) -> Script:
        async def waits(rank: Rank) -> None:
            if rank.rank:
                await rank.sleep(200_000_000, "slow")
                rank.send(0, "beat", 1, "beat")
            elif how in ("store", "join"):
                store = await rank.open_store(5, "open")
                assert store is not None
                store.set("k", 1, "set")
                if how == "store":
                    await store.get("k", "get", timeout_ns=timeout_ns)
                else:
                    await rank.join_store(0, 5, "join", timeout_ns=timeout_ns)
            else:
                if how == "own message":
                    rank.send(0, "beat", 1, "own")
                    await rank.sleep(1_000_000, "nap")
                assert await rank.mailbox("beat").get("wait", timeout_ns=timeout_ns) is not None

        return waits

    assert explored(World(2, ()), waiting(None), strategy=strategy).assumes == ALL
    limited = explored(World(2, ()), waiting(10_000_000), strategy=strategy)
    assert limited.assumes == (*ALL, "time-outs are longer than all that goes on")


def test_a_verdict_ends_in_what_it_assumes() -> None:
    summary = explored(World(2, ()), sleeps).summary()
    assert summary == (
        "proven: holds in every schedule of this world; 1 schedule (1 class); "
        "assumes: no rank dies; unlimited residency; unlimited launch queue; no allocation waits"
    )


def test_a_sample_assumes_as_much_as_a_proof() -> None:
    found = explored(World(2, ()), sleeps, strategy="random", schedules=2)
    assert found.verdict == "sampled"
    assert found.summary().endswith(
        "; assumes: no rank dies; unlimited residency; unlimited launch queue; no allocation waits"
    )


def test_a_violation_assumes_nothing() -> None:
    found = explored(World(2, ()), raises)
    assert found.assumes == ()
    assert "assumes" not in found.summary()
