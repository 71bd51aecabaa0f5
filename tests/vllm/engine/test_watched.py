"""Tests of `engine_watched`: after a death or an exception at any op, every participant ends and names the dead one.

Every request gets an answer or an error. Without a death, the engines do the same as in the program `engine`. The
faulty twins leave out a watch, an abort or a message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pytest

from dpsim.campaign.subject import Subject
from dpsim.contract.interface import Rank
from dpsim.contract.world import At, Delay, Fault, Kill
from dpsim.scenario import ScenarioError, scenario_from
from dpsim.vllm.engine.coordinator import Coordinator
from dpsim.vllm.engine.deaths import DEATHS
from dpsim.vllm.engine.frontend import FrontEnd
from dpsim.vllm.engine.loop import EngineLoop
from dpsim.vllm.engine.monitor import Monitor
from dpsim.vllm.engine.watched import ANSWERED, FAILED, WatchedCoordinator, WatchedFrontEnd, WatchedLoop
from dpsim.vllm.museum.deaths import Orphan, ToldByMessage
from tests.properties import nightly_but
from tests.vllm.engine import group_worlds
from tests.vllm.engine.watched_worlds import Seen, addresses, explored, run, watched

MS = 1_000_000
SHUTDOWN = [(MS // 10, ("SHUTDOWN",))]


def faults(kind: Literal["die", "raise"], **group: Any) -> Iterator[Seen]:
    """Yields one run for each op of each participant, with a fault at this op."""
    for actor, at in addresses(watched(**group)):
        yield run(watched(faults=[Fault(kind, actor, at)], **group))


def test_without_a_death_it_is_the_program_engine() -> None:
    """Without a death, the engines run the same forwards as in the program `engine`."""
    requests = [3, (2, MS)]
    seen = run(watched(requests=requests))
    assert seen.wrong == []
    assert seen.run.finished
    assert seen.probes(3) == {ANSWERED: 2}
    plain = group_worlds.run(group_worlds.group(requests=requests, interval=2))
    assert [seen.probes(rank) for rank in (0, 1)] == [plain.probes(rank) for rank in (0, 1)]


def test_a_death_at_any_op_ends_all_others() -> None:
    """At whichever op a participant dies, all others end as they have to."""
    everywhere = list(faults("die", requests=[1]))
    assert len(everywhere) > 60
    assert [seen.wrong for seen in everywhere if seen.wrong] == []
    assert all(seen.run.ends.count("died") == 1 for seen in everywhere)


@pytest.mark.parametrize(("actor", "site"), [(1, "engine.left"), (2, "coordinator.stop")])
def test_a_front_end_learns_of_a_late_death(actor: int, site: str) -> None:
    """A front end notices the death of a participant even after its last request.

    An engine that leaves normally reports this before, and an engine that dies does not.
    """
    seen = run(watched(requests=[1], faults=[Fault("die", actor, At(site, 0))]))
    assert seen.wrong == []
    assert seen.error(3).startswith("EngineDeadError: front end 0 ends: ")


class TakesAllForLeft(WatchedFrontEnd):
    """The front end treats every participant that is gone after the last request as one that left normally."""

    def gone(self, child: int) -> None:
        self.leaving.add(child)
        super().gone(child)


def test_a_front_end_that_does_not_learn_of_it() -> None:
    """The faulty twin: a front end that treats a dead engine as one that left normally ends without an error."""
    death = [Fault("die", 1, At("engine.left", 0))]
    assert run(watched(requests=[1], faults=death, pieces={FrontEnd: TakesAllForLeft})).error(3) == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "group",
    [{"dp": 1, "requests": [2]}, {"dp": 3, "requests": [2, 1]}, {"requests": [2, (2, MS), (1, MS)], "frontends": 2}],
    ids=str,
)
def test_a_death_at_every_op_of_other_groups(group: dict[str, Any]) -> None:
    assert [seen.wrong for seen in faults("die", **group) if seen.wrong] == []


def test_an_exception_of_an_engine_ends_its_peers_and_fails_all_requests() -> None:
    """If an engine raises, its peers end with EngineDeadError, which names it, and all requests fail."""
    seen = run(watched(requests=[3, 3], faults=[Fault("raise", 1, At("dp.agree", 1))]))
    assert seen.wrong == []
    assert seen.run.ends == ["raised"] * 4
    assert seen.error(1) == "InjectedError: injected at dp.agree[1]"
    assert seen.error(0) == "EngineDeadError: engine 0 ends: engine 1 is gone"
    assert seen.probes(3)[FAILED] == 2


@pytest.mark.slow
def test_an_exception_at_every_op() -> None:
    assert [seen.wrong for seen in faults("raise", requests=[2]) if seen.wrong] == []


def test_engines_of_several_workers_are_refused() -> None:
    raw = {"name": "two", "protocol": "engine_watched", "topology": {"tensor_parallel_size": 2}}
    with pytest.raises(ScenarioError, match="expected engines of one worker each"):
        Subject.of(scenario_from({**raw, "workload": {"requests": [{"prompt_tokens": 1, "output_tokens": 1}]}}))


# ---- shutdown


def test_a_shutdown_in_mid_step_ends_all_in_order() -> None:
    """A shutdown fails the unfinished requests, and all participants end normally. Without one, all requests are
    answered.
    """
    seen = run(watched(requests=[50, 50], control=SHUTDOWN))
    assert seen.run.finished
    assert seen.probes(3) == {FAILED: 2}
    drained = run(watched(requests=[5, 5]))
    assert drained.run.finished
    assert drained.probes(3) == {ANSWERED: 2}


@pytest.mark.slow
@pytest.mark.parametrize("control", [SHUTDOWN, ()], ids=["abort", "drain"])
@pytest.mark.parametrize("dp", [1, 2])
def test_a_shutdown_at_any_time_ends_all_engines(control: Any, dp: int) -> None:
    for by in ("dpor", "random"):
        result, _ = explored(watched(dp, requests=[2], control=control), 400, by)
        assert result.failures == {}


# ---- twins


class ForgetsTheDevice(Monitor):
    """The monitor does not abort the device communicators."""

    def abort_devices(self, rank: Rank) -> None:
        pass


class WithoutDevices(WatchedLoop):
    """An engine whose monitor does not abort the device communicators."""

    monitor = ForgetsTheDevice


class LeavesSilently(WatchedLoop):
    """An engine leaves without a message to its peers, so they treat it as dead."""

    def leave(self, shut_down: bool) -> None:
        self.rank.send(self.rank.rank, DEATHS, ("LEFT", self.index), "engine.left")


class LeavesInMidStep(WatchedLoop):
    """An engine that has to stop leaves at once, so its peers hang in their next forward."""

    def has_work(self) -> bool:
        return super().has_work() and not self.stops


class Unwatching(WatchedCoordinator):
    """The coordinator does not watch the front ends."""

    async def run(self) -> None:
        await Coordinator.run(self)


class Drops(WatchedFrontEnd):
    """The front end forgets the requests that it has not sent yet."""

    def fail(self) -> None:
        self.owed &= self.awaited
        super().fail()


WAITS = [(MS, ("WAIT",))]
TWINS: dict[str, tuple[type[Any], type[Any], int, tuple[int, str, int]]] = {
    "silent": (FrontEnd, ToldByMessage, 1, (0, "forward.read", 0)),
    "orphan": (EngineLoop, Orphan, 1, (1, "frontend.output", 1)),
    "device": (EngineLoop, WithoutDevices, 2, (1, "forward.experts", 0)),
    "coordinator": (Coordinator, Unwatching, 2, (3, "frontend.watch", 0)),
    "drops": (FrontEnd, Drops, 2, (0, "engine.output", 0)),
}


@pytest.mark.parametrize("twin", TWINS)
def test_a_rank_that_does_not_learn_of_a_death(twin: str) -> None:
    """With each faulty twin, some participant does not notice a death, or a request gets no answer."""
    base, piece, dp, (actor, site, ordinal) = TWINS[twin]
    given: Any = {"dp": dp, "requests": [2, (1, 2 * MS)], "control": WAITS}
    given["faults"] = [Fault("die", actor, At(site, ordinal))]
    assert run(watched(**given)).wrong == []
    assert run(watched(**given, pieces={base: piece})).wrong != []


@pytest.mark.parametrize("twin", [LeavesSilently, LeavesInMidStep])
def test_ranks_leave_in_order(twin: type[Any]) -> None:
    """Engines have to leave in order. Here engine 1 receives its order to stop a little later than engine 0."""
    late = Delay(2, At("coordinator.stop", 1), 100 * MS)
    given: Any = {"requests": [2], "interval": 32, "delays": (late,)}
    assert run(watched(**given)).wrong == []
    assert run(watched(**given, pieces={EngineLoop: twin})).wrong != []


# ---- explored


def killed(dp: int, actor: int, limit: int, by: str = "dpor", **kill: Any) -> tuple[str, int, int]:
    """Explores the death of an actor at any point, or none. Returns the verdict, the number of schedules, and K.

    K is the largest number of ops that an actor makes between the death and its own end.
    """
    result, most = explored(watched(dp, kills=[Kill(actor, **kill)]), limit, by)
    assert result.failures == {}
    return result.verdict, result.runs, max(most)


@pytest.mark.parametrize(
    ("loses_mail", "schedules"), nightly_but([(False, 1_249), (True, 1_842)], lambda one: one == (False, 1_249))
)
def test_an_engine_alone_is_killed_at_every_point(loses_mail: bool, schedules: int) -> None:
    """The death of a single engine has no finding in any schedule."""
    assert killed(1, 0, 3_000, loses_mail=loses_mail) == ("proven", schedules, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("actor", "dpor", "random"), [(0, 6, 16), (1, 8, 20), (2, 0, 18), (3, 8, 16)])
def test_a_kill_of_one_actor_at_any_point_ends_the_others(actor: int, dpor: int, random: int) -> None:
    """One of two engines, the coordinator or a front end dies at any point, in 150 schedules of many.

    The figures are K, the most ops that an actor makes after the death.
    """
    for by, most in ("dpor", dpor), ("random", random):
        assert killed(2, actor, 150, by, loses_mail=True, partial=True) == ("sampled", 150, most)


def test_the_twins_are_found_by_exploration() -> None:
    silent = watched(1, kills=[Kill(0)], pieces={FrontEnd: ToldByMessage})
    orphan = watched(1, kills=[Kill(1)], pieces={EngineLoop: Orphan})
    for twin in (silent, orphan):
        for by in ("dpor", "random"):
            result, _ = explored(twin, 100, by)
            assert result.failures
