"""Tests that a parent that was stopped does not count that time as the ranks' time. The clock is planted, so no test
waits.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

import pytest

from dpsim.contract.ops import MAIN, Injected
from dpsim.contract.world import Lost, World
from real import clock, crew, watch
from real.backend import GlooBackend
from real.child import Child
from real.clock import SLACK_NS, Clock
from real.fork_server import ForkServer
from real.journal_file import JournalFile
from real.messages import JobEnded
from real.watch import JobWatch

SECOND = 1_000_000_000
POLL = SECOND // 20


class Planted:
    """A clock that advances only when a poll of the workers takes time."""

    def __init__(self) -> None:
        self.now = 17 * SECOND

    def monotonic_ns(self) -> int:
        return self.now


class Silent:
    """A worker that lives and sends nothing before its end."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.name = f"rank {rank}"
        self.sent: list[Any] = []

    def taken_away(self) -> str:
        return ""

    def is_ending(self) -> bool:
        return False

    def busy_ns(self) -> int:
        return 0

    def send(self, message: Any) -> None:
        self.sent.append(message)

    def receive(self) -> JobEnded:
        return JobEnded(1, "finished", 0, 0, 0)


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Planted:
    planted = Planted()
    monkeypatch.setattr(clock, "time", planted)
    return planted


class NoClock(Clock):
    """The faulty twin: the plain monotonic clock."""

    def look(self) -> int:
        self._most_ns = 1 << 62
        return super().look()


def watched(
    planted: Planted, monkeypatch: pytest.MonkeyPatch, world: World, path: Path, turns: Iterator[int], ends: int
) -> JobWatch:
    """Watches two ranks that end at turn `ends`; `turns` are the durations of the turns."""
    count = itertools.count(1)

    def speaking(children: Sequence[Silent], _: float) -> Sequence[Silent]:
        planted.now += next(turns)
        return children if next(count) == ends else []

    monkeypatch.setattr(watch, "speaking", speaking)
    path.write_text("")
    children = cast(list[Child], [Silent(0), Silent(1)])
    one = JobWatch(children, [path, path], world, 1, None)
    one.observe()
    return one


def once_stopped(seconds: int, before: int) -> Iterator[int]:
    return itertools.chain([POLL] * before, [seconds * SECOND], itertools.repeat(POLL))


@pytest.mark.parametrize("before", [0, 30, 190])  # within the grace, after it, and shortly before the stall's end
def test_a_stopped_process_is_no_hang(
    planted: Planted, monkeypatch: pytest.MonkeyPatch, world: World, tmp_path: Path, before: int
) -> None:
    world = replace(world, stall_ns=10 * SECOND, deadline_ns=60 * SECOND)
    seen = watched(planted, monkeypatch, world, tmp_path / "journal", once_stopped(3600, before), before + 150)
    assert (seen.ends, seen.observed) == (["finished", "finished"], "")
    monkeypatch.setattr(watch, "Clock", NoClock)
    seen = watched(planted, monkeypatch, world, tmp_path / "journal", once_stopped(3600, before), before + 150)
    assert seen.ends == ["blocked", "blocked"], "without the clock that leaves out stops, the watch reports a hang"


def test_a_hang_is_found_also_after_the_process_was_stopped(
    planted: Planted, monkeypatch: pytest.MonkeyPatch, world: World, tmp_path: Path
) -> None:
    world = replace(world, stall_ns=10 * SECOND, deadline_ns=60 * SECOND)
    seen = watched(planted, monkeypatch, world, tmp_path / "journal", once_stopped(3600, 30), 0)
    assert seen.observed == "no rank moved for 10 s"
    assert 11 * SECOND < seen.elapsed_ns < 14 * SECOND, "the run does not count the hour in which it was stopped"


def test_the_deadline_passes_even_if_every_poll_is_late(
    planted: Planted, monkeypatch: pytest.MonkeyPatch, world: World, tmp_path: Path
) -> None:
    world = replace(world, stall_ns=10 * SECOND, deadline_ns=60 * SECOND)
    seen = watched(planted, monkeypatch, world, tmp_path / "journal", itertools.repeat(3 * SECOND), 0)
    assert seen.observed == "the run did not end within 60 s"


class Gone(Silent):
    """A worker that was killed, and whose socket another process keeps open."""

    def taken_away(self) -> str:
        return "was ended by SIGKILL"

    def how_it_ended(self) -> str:
        return "SIGKILL"


@pytest.mark.parametrize("planned", [True, False])
def test_a_planned_death_is_no_loss_although_its_socket_is_open(
    planted: Planted, monkeypatch: pytest.MonkeyPatch, world: World, tmp_path: Path, planned: bool
) -> None:
    """Watches a rank whose death was planned, so it is not lost. The twin's death was not planned, so it is."""

    def speaking(*_: object) -> list[Child]:
        planted.now += POLL
        return []

    paths = [tmp_path / "0", tmp_path / "1"]
    for path, dies in zip(paths, (False, planned), strict=True):
        file = JournalFile(str(path))
        if dies:
            file.write(Injected("injected", 0, MAIN, "nap", 0, "", "die"))
        file.close()
    monkeypatch.setattr(watch, "speaking", speaking)
    children = cast(list[Child], [Silent(0), Gone(1)])
    seen = JobWatch(children, paths, replace(world, stall_ns=10 * SECOND, deadline_ns=60 * SECOND), 1, None)
    seen.observe()
    if planned:
        assert (seen.lost, seen.ends) == ("", ["blocked", "died"])
        assert seen.observed == "no rank moved for 10 s after rank 1 died (SIGKILL)"
    else:
        assert seen.lost == "the process of rank 1 was ended by SIGKILL"


class Leaving(Silent):
    """A worker that has ended, whose driver still releases memory. Its socket stays open meanwhile."""

    def __init__(self, rank: int, how: str) -> None:
        super().__init__(rank)
        self.how, self.waited = how, False

    def is_ending(self) -> bool:
        return True

    def how_it_ended(self) -> str:
        self.waited = True
        return self.how

    def taken_away(self) -> str:
        return f"was ended by {self.how}" if self.waited and self.how.startswith("SIG") else ""


@pytest.mark.parametrize(("how", "lost"), [("SIGUSR1", "the process of rank 1 was ended by SIGUSR1"), ("exit 7", "")])
def test_a_process_that_takes_longer_to_end_than_the_stall_is_lost(
    planted: Planted, monkeypatch: pytest.MonkeyPatch, world: World, tmp_path: Path, how: str, lost: str
) -> None:
    def speaking(*_: object) -> list[Child]:
        planted.now += POLL
        return []

    path = tmp_path / "journal"
    path.write_text("")
    monkeypatch.setattr(watch, "speaking", speaking)
    world = replace(world, stall_ns=SECOND, deadline_ns=60 * SECOND)
    seen = JobWatch(cast(list[Child], [Silent(0), Leaving(1, how)]), [path, path], world, 1, None)
    seen.observe()
    assert (seen.lost, seen.ends[1]) == (lost, "died")
    hangs = JobWatch(cast(list[Child], [Silent(0), Silent(1)]), [path, path], world, 1, None)
    hangs.observe()
    assert (hangs.lost, hangs.ends) == ("", ["blocked", "blocked"]), "the twin"


def test_a_clock_counts_no_time_in_which_the_process_was_stopped(planted: Planted) -> None:
    one = Clock(0.5)
    for passed, counted, stood in [
        (SECOND, SECOND, False),
        (3600 * SECOND, 1.5 * SECOND, True),
        (SECOND // 2 + SLACK_NS, 1.5 * SECOND, False),
    ]:
        before = one.look()
        planted.now += passed
        assert one.look() - before == counted
        assert one.stood == stood


def test_set_up_does_not_count_stopped_time(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets workers up that never answer. The first poll returns an hour late, but the set-up fails only after its own
    time limit.
    """
    turns = once_stopped(3600, 0)
    looks: list[int] = []

    def speaking(*_: object) -> list[Child]:
        looks.append(0)
        planted.now += next(turns) if len(looks) == 1 else SECOND
        return []

    monkeypatch.setattr(crew, "speaking", speaking)
    monkeypatch.setattr(crew, "is_stopped", lambda _: False)

    class Process:
        pid = 0

    child = Silent(0)
    child.process = Process()  # type: ignore[attr-defined]
    with pytest.raises(Lost, match="does not answer for 180 s"):
        GlooBackend().pool.crew.gather(cast(list[Child], [child]), JobEnded, 1)
    assert len(looks) == 180


def test_a_fork_server_counts_no_stopped_time(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    server = object.__new__(ForkServer)
    looks: list[int] = []

    class Link:
        def poll(self, _: float) -> bool:
            looks.append(0)
            planted.now += 3600 * SECOND if len(looks) == 1 else SECOND
            return False

    class Process:
        pid = 0

    server._link = cast(Connection, Link())
    server._process = cast(Any, Process())
    with pytest.raises(TimeoutError, match="no answer for 20 s"):
        server._answer(20.0)
    assert len(looks) == 20
