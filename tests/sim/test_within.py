"""Tests `HostWork.within`, a wait with a time-out for a collective or transfer of a host. Its time-out follows the
rules of a get from a mailbox.

A world is a list of actions for each rank. Rank 0 waits at most 50 ms for a call. In `MAY` a peer joins it after sleeps
that last as long, and in `MAY_NOT` it does not. For `CASES` brute force enumerates all schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest

from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.subject import Subject
from dpsim.contract.interface import Aborted, Rank
from dpsim.contract.program import Program
from dpsim.contract.world import At, Delay, Fault, Kill
from dpsim.diagnose.timeouts import passed_timeouts
from dpsim.sim.backend import SimBackend
from dpsim.sim.calls.underway import QueriedCall
from dpsim.sim.graph.alarms import Alarms
from dpsim.sim.hosts.early_ends import MayWait
from tests.programs import judged, world_of
from tests.sim.test_early_timeouts import MS, Does, Things, in_time, world
from tests.worlds.case import Case
from tests.worlds.explored import missed


class Waits(Does):
    """`("wait", ms, what)`: the rank starts a call, which has to end within that time."""

    async def wait(self, rank: Rank, ms: float, what: str = "meet") -> None:
        group, one = rank.host("h"), np.ones(1, np.int32)
        work: Any = {
            "meet": lambda: group.all_reduce(one, site="meet"),
            "gives": lambda: group.broadcast(one, 0, site="gives"),
            "sends": lambda: group.send(one, 1, site="sends"),
            "hears": lambda: group.recv(1, "int32", 1, site="hears"),
        }[what]()
        over = await work.within(int(ms * MS), "within")
        if not over:
            rank.send(1, "in", "in vain", "vain")
        assert over or not self.strict, "the time-out passed"
        await work

    async def takes(self, rank: Rank) -> None:
        await rank.host("h").recv(1, "int32", 0, site="takes")

    async def gets(self, rank: Rank) -> None:
        await rank.host("h").broadcast(np.zeros(1, np.int32), 0, site="gets")

    async def sends_back(self, rank: Rank) -> None:
        await rank.host("h").send(np.ones(1, np.int32), 0, site="sends_back")


WAITS = [("wait", 50)]

MAY: dict[str, tuple[Things, ...]] = {
    "a sleep": (WAITS, [("nap", 100), ("meet",)]),
    "a sleep as long": (WAITS, [("nap", 50), ("meet",)]),
    "two sleeps": (WAITS, [("nap", 30), ("nap", 30), ("meet",)]),
    "a message to the peer": ([("tell", 1), *WAITS], [("hear",), ("nap", 60), ("meet",)]),
    "a receive": ([("wait", 50, "hears")], [("nap", 60), ("sends_back",)]),
    "a send that waits for its receive": ([("wait", 50, "sends")], [("nap", 60), ("takes",)]),
    "a root that waits for the others": ([("wait", 50, "gives")], [("nap", 60), ("gets",)]),
}
MAY_NOT: dict[str, tuple[Things, ...]] = {
    "no sleep": (WAITS, [("meet",)]),
    "a short sleep": (WAITS, [("nap", 10), ("meet",)]),
    "a long sleep behind it": (WAITS, [("meet",), ("nap", 100)]),
    "its own sleep first": ([("nap", 100), *WAITS], [("nap", 100), ("meet",)]),
    "a receive": ([("wait", 50, "hears")], [("nap", 40), ("sends_back",)]),
}


def explored(scripts: tuple[Things, ...], **more: Any) -> Explored:
    return explore_subject(Subject(world(scripts, **more), Waits(*scripts)), "dpor", schedules=2_000)


@pytest.mark.parametrize("name", MAY)
def test_a_time_out_may_pass_before_a_peer_that_sleeps_longer(name: str) -> None:
    assert explored(MAY[name]).verdict == "violated"


@pytest.mark.parametrize("name", ["a sleep", "two sleeps", "a message to the peer", "a receive"])
def test_the_run_in_time_shows_that_the_time_out_passes(name: str) -> None:
    assert "raised" in in_time(world(MAY[name]), Waits(*MAY[name]))


@pytest.mark.parametrize("name", MAY_NOT)
def test_a_time_out_does_not_pass_before_a_peer_that_sleeps_shorter(name: str) -> None:
    found = explored(MAY_NOT[name])
    assert found.verdict == "proven", found.summary()
    assert "no time-out passes early" in found.assumes
    assert in_time(world(MAY_NOT[name]), Waits(*MAY_NOT[name])) == ("finished", "finished")


def test_one_early_time_out_finds_a_violation() -> None:
    assert explored(MAY_NOT["no sleep"], early_timeouts=1).verdict == "violated"


def case(name: str, *scripts: Things, **more: Any) -> Case:
    return Case(name, world(scripts, **more), Waits(*scripts, strict=False))


LOOKS = [("nap", 100), ("look",), ("meet",)]
CASES = [
    case("a sleep", [("wait", 50)], LOOKS),
    case("a short one", [("wait", 50)], [("nap", 10), ("look",), ("meet",)]),
    case("no peer", [("wait", 50)], [("nap", 100), ("look",)]),
    case("both wait", [("wait", 50)], [("nap", 100), ("look",), ("wait", 30)]),
    case("one after the other", [("wait", 50), ("wait", 60)], [("nap", 100), ("meet",), ("look",), ("meet",)]),
    case("a message too", [("wait", 50), ("hear", 40, 1)], [("nap", 60), ("tell", 0), ("look",), ("meet",)]),
    case("a root", [("wait", 50, "gives")], [("nap", 60), ("look",), ("gets",)]),
    case("a send", [("wait", 50, "sends")], [("nap", 60), ("look",), ("takes",)]),
    case("the peer may die", [("wait", 50)], [("nap", 100), ("meet",)], kills=(Kill(1),)),
    case("a part of the peer may die", [("wait", 50)], [("meet",)], kills=(Kill(1, partial=True),)),
    case("who waits may die", [("wait", 50)], LOOKS, kills=(Kill(0),)),
    case("a late peer", [("wait", 50)], [("look",), ("meet",)], delays=(Delay(1, At("meet", 0), 100 * MS),)),
    case("one early", [("wait", 50)], [("look",), ("meet",)], early_timeouts=1),
    case("one of two early", [("wait", 50)], [("look",), ("wait", 60)], early_timeouts=1),
    case("early and asleep", [("wait", 50)], LOOKS, early_timeouts=1),
]


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.name)
def test_dpor_sees_what_all_schedules_show(one: Case) -> None:
    outcomes, classes, _ = missed(one)
    assert (outcomes, classes) == (0, 0)


def test_a_time_out_that_passes_at_any_time_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin: a time-out may pass at any time, like another op."""
    monkeypatch.setattr(Alarms, "set", lambda self, op, *_: self._machine.submit(op))
    assert explored(MAY_NOT["no sleep"]).verdict == "violated"


def test_a_wait_without_its_own_draw_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin: the explorer tries only a wait that never ends, as for an await. It misses outcomes."""
    monkeypatch.setattr(
        MayWait, "met", property(lambda self: self._all_arrived.causes if self._all_arrived.at >= 0 else None)
    )
    sends = next(one for one in CASES if one.name == "a send")
    assert missed(sends)[0]
    assert explored(MAY["a send that waits for its receive"]).verdict == "proven"


def test_a_wait_that_never_sees_the_end_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin: the wait does not notice the end of the call."""

    def forgets(ask: QueriedCall, timeout_ns: int) -> Callable[[], Any]:
        def outcome() -> Generator[Any, Any, bool]:
            yield from ask._communicator.host.pause(timeout_ns)
            return False

        return outcome

    monkeypatch.setattr(QueriedCall, "within", forgets)
    assert explored(MAY_NOT["no sleep"]).verdict == "violated"


# ---- beside other calls of a work


class Script(Program[Any]):
    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        group = rank.host("h")
        if rank.rank == 0:
            late, over = group.barrier(), group.barrier()
            assert not await late.within(1, "within")
            rank.send(1, "go", 1, "tell")
            assert await late.within(10**12, "within")
            await late
            assert await late.within(1, "within"), "a call that the host awaited has ended"
            assert await over.within(10**12, "within")
            assert await over.query("look"), "a host that has found it over can count on yes"
            await over
        else:
            await rank.mailbox("go").get("go")
            for _ in range(2):
                await group.barrier()


def test_an_op_after_within_is_ordered_after_the_end_of_the_call() -> None:
    found = explore_subject(Subject(world_of(2, ["h"]), Script()), "dpor")
    assert found.verdict == "proven", found.report()
    run = SimBackend().run_program(world_of(2, ["h"]), Script(), None)
    assert run.finished
    assert len(passed_timeouts(run)) == 1
    assert (
        "rank 0 waited 1e-06 ms for barrier #0 on h; the time-out passed (within[0], tests/sim/"
        in (passed_timeouts(run)[0])
    )


class GivesUp(Program[Any]):
    aborts = True

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        if rank.rank == 0:
            work = rank.host("h").barrier()
            assert not await work.within(1, "within")
            rank.host("h").abort()
            for _ in range(2):
                with pytest.raises(Aborted):
                    await work.within(1, "within")


def test_within_on_an_aborted_communicator_raises() -> None:
    found = explore_subject(Subject(world_of(2, ["h"]), GivesUp()), "dpor")
    assert found.verdict == "proven", found.report()


@pytest.mark.parametrize(("ns", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), (None, TypeError)])
def test_within_without_a_time_is_refused(ns: Any, error: type[Exception]) -> None:
    async def asks(rank: Rank) -> None:
        work = rank.host("h").barrier()
        with pytest.raises(error, match="within: the time-out"):
            work.within(ns, "within")
        await work

    assert not judged(world_of(2, ["h"]), asks)


def test_a_call_that_a_fault_left_out_is_over() -> None:
    async def waits(rank: Rank) -> None:
        work = rank.host("h").barrier()
        assert rank.rank or await work.within(1, "within")
        await work

    skips = tuple(Fault("skip", rank, At("h.barrier", 0)) for rank in (0, 1))
    found = judged(world_of(2, hosts=["h"], faults=skips), waits)
    assert not [one for one in found if one.klass.startswith("CRASH")]


async def _raises(rank: Rank) -> None:
    """Rank 0 raises because rank 1 does not call the barrier; rank 1 waits for a message."""
    if rank.rank == 0:
        work = rank.host("h").barrier()
        if not await work.within(50 * MS, "within"):
            raise TimeoutError("rank 1 did not come")
    elif rank.rank == 1:
        await rank.mailbox("never").get("stands")


def test_a_rank_that_gives_up_is_a_witness() -> None:
    """Rank 1 hangs in a get, so this get is a finding. The exception of rank 0 names no other culprit."""
    classes = [one.klass for one in judged(world_of(2, ["h"]), _raises)]
    assert "HANG:MAILBOX:NO_MESSAGE" in classes
