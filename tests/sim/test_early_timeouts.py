"""Tests which time-outs may pass before the awaited message arrives: those that a sleep or a planted delay outlasts.

A world is a list of actions for each rank, and rank 0 waits at most 50 ms. In `MAY` its message comes after sleeps that
last as long, through messages, collectives or a store. In `MAY_NOT` it does not. For `CASES`, brute force enumerates
all schedules, and DPOR has to find the same outcomes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpsim.campaign import in_time as run_in_time
from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.processes import explore_all
from dpsim.campaign.subject import Subject
from dpsim.checks.expected import Expected
from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.world import At, CommunicatorSpec, Delay, Kill, World
from dpsim.sim.backend import SimBackend
from dpsim.sim.graph.alarms import Alarms
from dpsim.sim.graph.sleeps import Sleeps
from dpsim.testing import holds
from tests.programs import world_of
from tests.worlds.case import Case
from tests.worlds.explored import missed

MS = 1_000_000
Things = Sequence[tuple[Any, ...]]


class Does(Program[Any]):
    """Each rank does a list of actions. `("hear", ms)`: it has to receive a message within that time."""

    def __init__(self, *scripts: Things, strict: bool = True) -> None:
        self.scripts = scripts
        self.strict = strict

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        for what, *more in self.scripts[rank.rank]:
            await getattr(self, what)(rank, *more)

    async def tell(self, rank: Rank, to: int) -> None:
        rank.send(to, "in", rank.rank, "tell")

    async def hear(self, rank: Rank, ms: float | None = None, vain: int | None = None) -> None:
        heard = await rank.mailbox("in").get("hear", timeout_ns=None if ms is None else int(ms * MS))
        if heard is None and vain is not None:
            rank.send(vain, "in", "in vain", "vain")
        assert heard is not None or not self.strict, "the time-out passed"

    async def look(self, rank: Rank) -> None:
        await rank.mailbox("in").poll("look")

    async def nap(self, rank: Rank, ms: float) -> None:
        await rank.sleep(int(ms * MS), "nap")

    async def meet(self, rank: Rank) -> None:
        await rank.host("h").all_reduce(np.ones(1, np.int32), site="meet")

    async def publish(self, rank: Rank) -> None:
        store = await rank.join_store(0, 5, "join")
        assert store is not None
        store.set("key", 1, "set")

    async def serve(self, rank: Rank, ms: float) -> None:
        store = await rank.open_store(5, "open")
        assert store is not None
        assert await store.get("key", "ask", timeout_ns=int(ms * MS)) is not None, "the time-out passed"


WAITS = [("hear", 50)]

MAY: dict[str, tuple[Things, ...]] = {
    "a sleep": (WAITS, [("nap", 100), ("tell", 0)]),
    "a sleep as long": (WAITS, [("nap", 50), ("tell", 0)]),
    "two sleeps": (WAITS, [("nap", 30), ("nap", 30), ("tell", 0)]),
    "a chain of two messages": (WAITS, [("hear",), ("tell", 0)], [("nap", 100), ("tell", 1)]),
    "a chain of three": (WAITS, [("hear",), ("tell", 0)], [("hear",), ("tell", 1)], [("nap", 51), ("tell", 2)]),
    "sleeps of two ranks in a chain": (WAITS, [("hear",), ("nap", 30), ("tell", 0)], [("nap", 30), ("tell", 1)]),
    "a message there and back": ([("tell", 1), *WAITS], [("hear",), ("nap", 60), ("tell", 0)]),
    "a collective of others": (WAITS, [("meet",), ("tell", 0)], [("nap", 70), ("meet",)]),
    "a store": ([("serve", 50)], [("nap", 100), ("publish",)]),
    "the second of two": ([("hear", 50), ("hear", 50)], [("tell", 0), ("nap", 100), ("tell", 0)]),
}

MAY_NOT: dict[str, tuple[Things, ...]] = {
    "no sleep": (WAITS, [("tell", 0)]),
    "a short sleep": (WAITS, [("nap", 10), ("tell", 0)]),
    "two short ones": (WAITS, [("nap", 20), ("nap", 20), ("tell", 0)]),
    "a chain of short ones": (WAITS, [("hear",), ("nap", 20), ("tell", 0)], [("nap", 20), ("tell", 1)]),
    "a long sleep behind it": (WAITS, [("tell", 0), ("nap", 100)]),
    "a long sleep of another": (WAITS, [("tell", 0)], [("nap", 100)]),
    "sleeps side by side": (WAITS, [("nap", 30), ("hear",), ("tell", 0)], [("nap", 30), ("tell", 1)]),
    "its own sleep first": ([("nap", 100), *WAITS], [("nap", 100), ("tell", 0)]),
    "after a collective": ([("meet",), *WAITS], [("nap", 100), ("meet",), ("tell", 0)]),
    "asked for later": ([("nap", 60), ("tell", 1), *WAITS], [("hear",), ("nap", 40), ("tell", 0)]),
    "a store": ([("serve", 50)], [("nap", 40), ("publish",)]),
}


def world(scripts: Sequence[Things], **more: Any) -> World:
    one = world_of(len(scripts), ["h"], **more)
    if len(scripts) == 3 and ("meet",) in scripts[1]:
        one = replace(one, communicators=(CommunicatorSpec("h", "h", "host", (1, 2)),))
    return one


def explored(scripts: Sequence[Things], strategy: str = "dpor", **more: Any) -> Explored:
    return explore_subject(Subject(world(scripts, **more), Does(*scripts)), strategy, schedules=2_000)


def in_time(one: World, program: Program[Any]) -> tuple[str, ...]:
    return tuple(SimBackend().run_program(one, program, None).ends)


@pytest.mark.parametrize("name", MAY)
def test_a_time_out_may_pass_before_what_lies_behind_a_longer_sleep(name: str) -> None:
    """The explorer finds a schedule in which the time-out passes. The timed run shows the same."""
    scripts = MAY[name]
    found = explored(scripts)
    assert found.verdict == "violated"
    assert found.confirmed
    assert found.exploration.in_time is not None
    assert found.failure is not None
    assert not found.failure.in_time, "a schedule shows it"
    assert "raised" in in_time(world(scripts), Does(*scripts))


@pytest.mark.parametrize("name", MAY_NOT)
def test_no_time_out_passes_before_what_lies_behind_shorter_sleeps(name: str) -> None:
    found = explored(MAY_NOT[name])
    assert found.verdict == "proven", found.summary()
    assert "no time-out passes early" in found.assumes


# ---- every schedule, one by one


def case(name: str, *scripts: Things, **more: Any) -> Case:
    return Case(name, world(scripts, **more), Does(*scripts, strict=False))


CASES = [
    case("a sleep", [("hear", 50, 1)], [("nap", 100), ("look",), ("tell", 0)]),
    case("a short one", [("hear", 50, 1)], [("nap", 10), ("look",), ("tell", 0)]),
    case(
        "a short and a long one", [("hear", 50, 1)], [("nap", 100), ("look",), ("tell", 0)], [("nap", 20), ("tell", 1)]
    ),
    case("two wait", [("hear", 50, 1)], [("hear", 50, 0), ("tell", 2)], [("nap", 100), ("tell", 0), ("look",)]),
    case(
        "two of two lengths", [("hear", 50, 2)], [("hear", 70, 2)], [("nap", 60), ("tell", 0), ("tell", 1), ("look",)]
    ),
    case("two sleepers", [("hear", 50, 1)], [("nap", 100), ("look",), ("tell", 0)], [("nap", 60), ("tell", 0)]),
    case("one that wakes another", [("hear", 50, 1)], [("hear", 80, 2), ("tell", 0)], [("nap", 90), ("look",)]),
    case("in vain", [("hear", 50, 1)], [("nap", 100), ("look",)]),
    case("it comes before the call", [("look",), ("hear", 50, 1)], [("nap", 100), ("tell", 0), ("look",)]),
    case("one after the other", [("hear", 50), ("hear", 60, 1)], [("nap", 100), ("tell", 0), ("look",)]),
    case("a collective", [("meet",), ("hear", 50, 1)], [("meet",), ("nap", 100), ("look",), ("tell", 0)]),
    case("the sleeper may die", [("hear", 50, 1)], [("nap", 100), ("tell", 0)], kills=(Kill(1),)),
    case("who waits may die", [("hear", 50, 1)], [("nap", 100), ("tell", 0), ("look",)], kills=(Kill(0),)),
    case(
        "it tells, then sleeps on",
        [("hear",), ("hear", 50, 1), ("hear",)],
        [("nap", 100), ("tell", 0), ("nap", 20)],
        [("nap", 120), ("tell", 0)],
    ),
    case("a late message", [("hear", 50, 1)], [("tell", 0), ("look",)], delays=(Delay(1, At("tell", 0), 100 * MS),)),
    case("one early", [("hear", 50, 1)], [("tell", 0), ("look",)], early_timeouts=1),
    case("one of two early", [("hear", 50, 1)], [("hear", 60, 0), ("tell", 0)], [("tell", 1)], early_timeouts=1),
    case("two early", [("hear", 50, 1)], [("hear", 60, 0), ("tell", 0)], [("tell", 1)], early_timeouts=2),
    case("early and asleep", [("hear", 50, 1)], [("nap", 100), ("tell", 0), ("look",)], early_timeouts=1),
]


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.name)
def test_dpor_sees_what_all_schedules_show(one: Case) -> None:
    outcomes, classes, _ = missed(one)
    assert (outcomes, classes) == (0, 0)


def test_a_search_that_does_not_turn_time_outs_and_sleeps_round_would_be_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The faulty twin: a search that never lets a time-out pass before a longer sleep misses outcomes of `CASES`."""
    monkeypatch.setattr(Alarms, "_overslept", lambda self: self._offered.clear())
    monkeypatch.setattr(Sleeps, "late", lambda self, causes, end: 0)
    assert any(missed(one)[0] for one in CASES)


class Meets(Program[Any]):
    """Rank 0 sends a message while a barrier is under way. Rank 1 waits 70 ms for the barrier, then for the message."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        met = rank.host("h").barrier(site="met")
        if rank.rank == 0:
            rank.send(1, "in", 0, "tell")
        else:
            await met.within(70 * MS, "within")
            assert await rank.mailbox("in").get("hear", timeout_ns=50 * MS) is not None, "the time-out passed"
        await met


def test_a_message_that_was_there_may_come_too_late() -> None:
    """In the first schedule, the message is there before rank 1 asks for it."""
    verdicts = [explore_subject(Subject(world_of(2, ["h"], early_timeouts=most), Meets())).verdict for most in (0, 1)]
    assert verdicts == ["proven", "violated"]


def test_sleeps_are_one_order_where_no_rank_waits_with_a_time_out() -> None:
    found = explored(([("hear",), ("nap", 5)], [("nap", 100), ("tell", 0)], [("nap", 10)]))
    assert (found.verdict, found.exploration.runs) == ("proven", 1)


# ---- worlds whose time-outs may pass early without a sleep


def test_a_world_may_let_time_outs_pass_early() -> None:
    """`early_timeouts` bounds the time-outs that pass early. Two messages can come too late only if the bound is at
    least two.
    """
    softly = [("hear", 50), ("hear", 50)]
    scripts = ([*softly], [("tell", 0), ("tell", 0)])

    class Both(Does):
        async def hear(self, rank: Rank, ms: float | None = None, vain: int | None = None) -> None:
            heard = await rank.mailbox("in").get("hear", timeout_ns=50 * MS)
            rank.probe("heard" if heard is not None else "in.vain")

        async def run(self, rank: Rank, prepared: Any) -> None:
            await super().run(rank, prepared)
            if rank.rank == 0:
                left = [await rank.mailbox("in").poll("left") for _ in range(2)]
                rank.probe(f"left.{sum(one is not None for one in left)}")

        probes = ("heard", "in.vain", "left.0", "left.1", "left.2")

    seen = {}
    for most in (0, 1, 2):
        found = explore_subject(
            Subject(world(scripts, early_timeouts=most), Both(*scripts)), "dpor", stop_at_first=False
        )
        assert found.verdict == "proven", found.report()
        seen[most] = {*found.exploration.probes}
    assert seen[0] == {"heard", "left.0"}
    assert seen[1] == {"heard", "in.vain", "left.0", "left.1"}
    assert seen[2] == {"heard", "in.vain", "left.0", "left.1", "left.2"}


@pytest.mark.parametrize("name", ["no sleep", "a short sleep", "a store"])
@pytest.mark.parametrize("strategy", ["dpor", "random"])
def test_one_early_time_out_finds_a_violation_that_no_schedule_without_it_has(name: str, strategy: str) -> None:
    assert explored(MAY_NOT[name], strategy).verdict == ("proven" if strategy == "dpor" else "sampled")
    assert explored(MAY_NOT[name], strategy, early_timeouts=1).verdict == "violated"


# ---- the timed run


SHORT: tuple[Things, ...] = ([("hear", 0.000005)], [("tell", 0)])
"""The time-out is shorter than the time that a message takes. Only a timed run shows this."""


@pytest.mark.parametrize("jobs", [0, 1, 2])
@pytest.mark.parametrize("strategy", ["dpor", "portfolio", "random"])
def test_a_search_proves_nothing_that_the_run_in_time_refutes(strategy: str, jobs: int) -> None:
    subject = Subject(world(SHORT), Does(*SHORT))
    if jobs:
        (found,) = explore_all([subject], strategy, jobs=jobs, schedules=40)
    else:
        found = explore_subject(subject, strategy, schedules=40)
    assert (found.verdict, found.confirmed) == ("violated", True)
    assert found.failure is not None
    assert found.failure.in_time
    assert "The run of the world as written" in found.report()
    with pytest.raises(AssertionError, match="The run of the world as written"):
        holds(subject)


def test_a_get_without_a_time_out_is_proven_with_early_time_outs() -> None:
    twin: tuple[Things, ...] = ([("hear", 1)], SHORT[1])
    assert holds(Subject(world(twin), Does(*twin))).verdict == "proven"


def test_a_finding_of_the_run_in_time_may_be_expected_or_switched_off() -> None:
    expected = Subject(world(SHORT), Does(*SHORT), expected=Expected("violated", "CRASH"))
    assert holds(expected).verdict == "violated"
    assert holds(Subject(world(SHORT), Does(*SHORT), switched_off=("CRASH", "MAIL"))).verdict != "violated"


def test_a_run_without_an_end_is_left_to_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_in_time, "TICKS", 0)

    class Long(Does):
        async def run(self, rank: Rank, prepared: Any) -> None:
            for number in range(3_000):
                rank.decide("n", number, "h")

    assert run_in_time.failure_in_time(Subject(world(SHORT), Long(*SHORT))) is None
