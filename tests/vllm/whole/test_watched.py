"""Injects a death or an exception into a worker, core, coordinator or front end of engines with several workers.

All other processes must end and name the failed one. No worker may run on as an orphan, and each request must get an
answer or an error. Faulty twins leave out a watch, an abort or a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

import pytest

from dpsim.campaign.explored import explore_subject
from dpsim.campaign.subject import Subject
from dpsim.contract.interface import Rank
from dpsim.contract.ops import KIND
from dpsim.contract.world import At, Delay, Fault, Kill
from dpsim.scenario import load_scenario
from dpsim.vllm.engine.monitor import Monitor
from dpsim.vllm.engine.watched import ANSWERED, FAILED
from dpsim.vllm.whole.batch_queue import QueuedLoop
from dpsim.vllm.whole.stage_worker import StageWorker
from dpsim.vllm.whole.watched import CoreMonitor, WatchedCore, WatchedWorker, WorkerMonitor
from tests import ROOT
from tests.vllm.engine.watched_worlds import EXPECTED, Seen, addresses, explored, run
from tests.vllm.whole import whole_worlds
from tests.vllm.whole.whole_worlds import EAGER, Control, request, whole

MS = 1_000_000
SMALL: dict[str, Any] = {"pp": 2, "max_num_seqs": 2, "max_num_batched_tokens": 8, **EAGER}
SHUTDOWN: Control = [(MS // 10, ("SHUTDOWN",))]
CORE, COORDINATOR, FRONTEND = 4, 6, 7
"""The first actor of each kind, in a world of two engines with two workers each."""


def watched(
    requests: Sequence[dict[str, Any]] | None = None,
    faults: Iterable[Fault] = (),
    kills: Iterable[Kill] = (),
    delays: Sequence[Delay] = (),
    **settings: Any,
) -> Subject:
    """Returns a world of `whole_engine_watched`. Checks ignore findings that follow from the failure."""
    told = [request(5, 3), request(3, 2)] if requests is None else requests
    of = whole(told, protocol="whole_engine_watched", **SMALL | settings)
    world = replace(of.world, faults=tuple(faults), kills=tuple(kills), delays=tuple(delays))
    return replace(of, world=world, switched_off=EXPECTED)


def test_without_a_death_it_is_the_program_whole_engine() -> None:
    seen = run(watched())
    assert seen.wrong == []
    assert seen.run.finished
    assert seen.probes(FRONTEND) == {ANSWERED: 2}
    plain = whole_worlds.run(whole([request(5, 3), request(3, 2)], protocol="whole_engine", **SMALL))
    assert [seen.probes(one) for one in range(6)] == [plain.probes(one) for one in range(6)]


ONE: dict[str, Any] = {"requests": [request(3, 2)]}


def everywhere(kind: Literal["die", "raise"], every: int, **settings: Any) -> list[Seen]:
    """Injects a fault at each `every`-th op of all actors, with simulated time."""
    places = addresses(watched(**settings))[::every]
    return [run(watched(faults=[Fault(kind, actor, at)], **settings)) for actor, at in places]


@pytest.mark.slow
def test_a_death_at_many_ops() -> None:
    seen = everywhere("die", 13, **ONE)
    assert len(seen) > 40
    assert [one.wrong for one in seen if one.wrong] == []
    assert all(one.run.ends.count("died") == 1 for one in seen)
    print(f"{len(seen)} places, K {max(max(one.made.values()) for one in seen)}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [ONE, {"async_scheduling": True}, {"tp": 2, **ONE}, {"dp": 1}, {"capture_graphs": True, "cudagraph_mode": "FULL"}],
    ids=str,
)
def test_a_death_at_many_more_ops(settings: dict[str, Any]) -> None:
    seen = everywhere("die", 4 if settings is ONE else 25, **settings)
    assert [one.wrong for one in seen if one.wrong] == []
    print(f"{len(seen)} places, K {max(max(one.made.values()) for one in seen)}")


@pytest.mark.slow
def test_an_exception_at_many_ops() -> None:
    assert [one.wrong for one in everywhere("raise", 6, **ONE) if one.wrong] == []


def test_participants_report_the_failed_worker() -> None:
    """A worker of the first engine raises.

    Its core detects that, the other core detects the end of the first, and both stop.

    Each error names the process whose end its author detected.
    """
    seen = run(watched(faults=[Fault("raise", 1, At("dp.agree", 1))]))
    assert seen.wrong == []
    assert seen.error(1) == "InjectedError: injected at dp.agree[1]"
    assert seen.error(CORE) == "EngineDeadError: engine 0 ends: rank 1 is gone"
    assert seen.error(0) == "EngineDeadError: rank 0 ends: engine.0 is gone"
    assert seen.error(CORE + 1) == "EngineDeadError: engine 1 ends: engine.0 is gone"
    assert [seen.error(rank) for rank in (2, 3)] == [
        f"EngineDeadError: rank {rank} ends: engine.1 is gone" for rank in (2, 3)
    ]
    assert seen.probes(FRONTEND)[FAILED] == 2


def test_a_shutdown_in_mid_step_ends_all_in_order() -> None:
    seen = run(watched([request(5, 50), request(3, 50)], control=SHUTDOWN))
    assert seen.run.finished
    assert seen.probes(FRONTEND) == {FAILED: 2}


# ---- twins


class NoSentinels(CoreMonitor):
    """Faulty: a core does not watch its workers."""

    def watched(self) -> tuple[int, ...]:
        return Monitor.watched(self)


class Unwatching(WatchedCore):
    """A core with the monitor `NoSentinels`."""

    monitor = NoSentinels


class InputAlone(CoreMonitor):
    """Faulty: the monitor frees a core that waits for input, but not a core that waits for its workers' results."""

    boxes = ("input",)


class DeafToAnswers(WatchedCore):
    """A core with the monitor `InputAlone`."""

    monitor = InputAlone


class NoDeathPipe(WorkerMonitor):
    """Faulty: a worker does not watch its core."""

    def watched(self) -> tuple[int, ...]:
        return ()


class Orphan(WatchedWorker):
    """A worker with the monitor `NoDeathPipe`, which runs on after its core died."""

    monitor = NoDeathPipe


class HostsAlone(WorkerMonitor):
    """Faulty: the monitor aborts waits on the host, but not waits on a device."""

    def abort_devices(self, rank: Rank) -> None:
        pass


class BehindItsDevice(WatchedWorker):
    """A worker with the monitor `HostsAlone`, which stays blocked on its device."""

    monitor = HostsAlone


class ShutsDownAlone(WatchedCore):
    """Faulty: a core that receives the order to shut down does not notify the others."""

    def leave(self, shut_down: bool) -> None:
        super(WatchedCore, self).leave(shut_down)  # skips the method that notifies the others


class LeavesSilently(WatchedWorker):
    """Faulty: a worker ends without a message after its last call, so its core takes it for dead."""

    def leave(self) -> None:
        self.core, core = self.rank.rank, self.core
        super().leave()
        self.core = core


TWINS: dict[str, tuple[type[Any], type[Any], dict[str, Any], Fault | None]] = {
    "no sentinel": (QueuedLoop, Unwatching, {}, Fault("die", 1, At("worker.call", 2))),
    "orphan": (StageWorker, Orphan, {}, Fault("die", CORE, At("engine.finish_sync", 0))),
    "device": (StageWorker, BehindItsDevice, {}, Fault("die", 1, At("inputs.read", 0))),
    "answers": (QueuedLoop, DeafToAnswers, {}, Fault("die", 1, At("dp.agree", 0))),
    "shutdown": (QueuedLoop, ShutsDownAlone, {"control": SHUTDOWN}, None),
}


@pytest.mark.parametrize("twin", TWINS)
def test_a_twin_does_not_learn_of_a_failure(twin: str) -> None:
    base, piece, settings, fault = TWINS[twin]
    faults = [fault] if fault else []
    assert run(watched(**settings, faults=faults)).wrong == []
    assert run(watched(**settings, faults=faults, pieces={base: piece})).wrong != []


@pytest.mark.slow
def test_why_is_read_behind_the_monitor() -> None:
    """A worker reads `monitor.why` only after it has joined the monitor thread, so the exploration finds no race of
    threads.

    Reading it at any failure would be a RACE:THREADS in the first of these schedules.
    """
    shut_down = Subject.of(load_scenario(ROOT / "scenarios" / "whole_engine_shutdown.yaml"))
    assert explore_subject(shut_down, "dpor", schedules=10).findings == ()


# ---- explored

KILLED = [(0, 30, 43), (1, 30, 46), (CORE, 23, 41), (COORDINATOR, 0, 41), (FRONTEND, 30, 41)]
"""The killed actor, and the most ops that any actor makes after the kill until it ends, by strategy."""


@pytest.mark.slow
@pytest.mark.parametrize(("actor", "dpor", "random"), KILLED)
def test_killed_at_any_point(actor: int, dpor: int, random: int) -> None:
    """Explores 30 schedules of a kill, in which messages of the killed actor may be lost.

    All schedules would be too many.
    """
    subject = watched([request(1, 1)], kills=[Kill(actor, loses_mail=True)], interval=1)
    for by, expected in ("dpor", dpor), ("random", random):
        result, most = explored(subject, 30, by)
        assert result.failures == {}
        assert (result.verdict, result.runs, max(most)) == ("sampled", 30, expected)


def test_a_worker_that_is_left_is_found_by_exploring() -> None:
    orphan = watched([request(1, 1)], kills=[Kill(CORE)], interval=1, pieces={StageWorker: Orphan})
    assert explored(orphan, 40, "random")[0].failures


def test_a_worker_leaves_in_order() -> None:
    """If a core ends a little late, it does not take its worker for dead, because the worker announced its end.

    In the faulty twin, the worker ends silently and the core aborts.
    """
    late: dict[str, Any] = {"delays": (Delay(CORE, At("engine.left", 0), 100 * MS),)}
    healthy, twin = run(watched(**late)), run(watched(**late, pieces={StageWorker: LeavesSilently}))
    assert [[raw[KIND] for raw in one.run.journals[CORE]].count("abort") for one in (healthy, twin)] == [0, 1]
    assert healthy.wrong == []
