"""Tests of how a host waits: it polls, it sleeps if its polls would slow other processes, and it stops when the parent
asks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dpsim.backend.journal.issue import Issue
from dpsim.contract.world import CommunicatorSpec
from real import waiting
from real.communicators import Group
from real.waiting import POLLS, SPIN_NS, Patience, Unfinished, WatchedWork


class Work:
    """The work that torch returns for a collective on host memory."""

    def __init__(self, error: str = "", polls: int = 0) -> None:
        self.error = error
        self.polls = polls

    def is_completed(self) -> bool:
        self.polls -= 1
        return self.polls < 0

    def wait(self) -> None:
        assert self.polls <= 0, "the host called wait of torch before the work was complete"
        if self.error:
            raise RuntimeError(self.error)


@pytest.mark.parametrize("polls", [False, True])
def test_an_error_about_a_closed_connection_counts_as_a_missing_peer(polls: bool) -> None:
    patience = Patience(threading.Event(), polls)
    with pytest.raises(Unfinished):
        patience.work(Work("[pair.cc:553] Connection closed by peer [127.0.0.1]:4009. This is typically ..."))
    with pytest.raises(RuntimeError, match="another"):
        patience.work(Work("another error"))


def test_a_polling_host_gives_up() -> None:
    give_up = threading.Event()
    patience = Patience(give_up, polls=True)
    patience.work(Work(polls=5))
    asked = 0

    def ready() -> bool:
        nonlocal asked
        asked += 1
        if asked == 1000:
            give_up.set()
        return False

    with pytest.raises(Unfinished):
        patience.until(ready)
    assert 1000 <= asked < 1000 + POLLS
    assert patience.waited_ns > 0
    for wait in (patience.check, lambda: patience.sleep(10**15), lambda: patience.event(threading.Event())):
        with pytest.raises(Unfinished):
            wait()


class Clock:
    """A clock that advances at each poll, and by each sleep. `slept`: each pause in microseconds."""

    def __init__(self) -> None:
        self.ns = 0
        self.slept: list[int] = []

    def perf_counter_ns(self) -> int:
        self.ns += 1_000
        return self.ns

    def sleep(self, seconds: float) -> None:
        self.ns += int(seconds * 1e9)
        self.slept.append(round(seconds * 1e6))


@pytest.mark.parametrize(
    ("ready_ns", "pauses"),
    [
        (0, []),
        (SPIN_NS * 9 // 10, []),
        (SPIN_NS + 50_000, [20]),
        (2 * waiting.BRIEF_NS, [20, 500]),
    ],
)
def test_polls_are_without_a_pause_at_first(ready_ns: int, pauses: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks that a host does not sleep while it waits for 100 us, and that it waits for a hang with longer and longer
    pauses.
    """
    clock = Clock()
    monkeypatch.setattr(waiting, "time", clock)
    Patience(threading.Event(), polls=True).until(lambda: clock.ns >= ready_ns)
    assert sorted(set(clock.slept)) == pauses


def test_a_ready_result_is_requested_once() -> None:
    work = Sleeper(naps=0)
    Patience(threading.Event(), polls=True).until(work.is_completed)
    assert work.polls == 1


# ---- more ranks than cores


class Sleeper:
    """A work that is done after `naps` waits. With an `error` it then fails."""

    def __init__(self, naps: int, error: str = "", wakes: Callable[[], None] = lambda: None) -> None:
        self.naps = naps
        self.error = error
        self.wakes = wakes
        self.polls = 0

    def is_completed(self) -> bool:
        self.polls += 1
        return self.naps == 0

    def wait(self, timeout: timedelta | None = None) -> None:
        if self.naps:
            assert timeout is not None, "a wait without a time-out would block without end"
            self.naps -= 1
            self.wakes()
            raise RuntimeError("Operation timed out!")
        if self.error:
            raise RuntimeError(self.error)


def test_a_crowded_host_sleeps_within_torch() -> None:
    work = Sleeper(naps=3)
    Patience(threading.Event(), polls=True, crowded=True).work(work)
    assert (work.naps, work.polls) == (0, 4)


@pytest.mark.parametrize(
    ("says", "raised"), [("no such thing", RuntimeError), ("Connection reset by peer", Unfinished)]
)
def test_a_crowded_host_raises_the_error(says: str, raised: type[BaseException]) -> None:
    with pytest.raises(raised):
        Patience(threading.Event(), polls=True, crowded=True).work(Sleeper(2, says))


def test_a_crowded_host_gives_up() -> None:
    give_up = threading.Event()
    work = Sleeper(naps=9, wakes=give_up.set)
    with pytest.raises(Unfinished):
        Patience(give_up, polls=True, crowded=True).work(work)
    assert work.naps == 8


def test_gloo_can_be_asked_again_after_a_wait_that_was_too_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs two members in this process. The second one arrives after a wait of the first one has timed out."""
    torch = pytest.importorskip("torch")
    from torch.distributed import HashStore

    from real import gloo_calls

    monkeypatch.setattr(waiting, "GLANCE", timedelta(milliseconds=1))
    spec, store = CommunicatorSpec("dp_cpu", "dp_cpu", "host", (0, 1)), HashStore()
    made: dict[int, Any] = {}

    def connect(index: int) -> None:
        made[index] = gloo_calls.connect_gloo(spec, store, index)

    peer = threading.Thread(target=connect, args=(1,))
    peer.start()
    connect(0)
    peer.join()
    memory = [torch.full((3,), 10**index) for index in (0, 1)]

    def start(index: int) -> gloo_calls.Pending:
        issue = Issue("all_reduce", 3, "int64", reduce="sum")
        return gloo_calls.start(Group(spec, made[index]), issue, memory[index], memory[index])

    first = start(0)
    others: list[gloo_calls.Pending] = []

    class Late:
        def is_completed(self) -> bool:
            return first.is_completed()

        def wait(self, timeout: timedelta | None = None) -> None:
            try:
                first.wait(timeout)
            except RuntimeError:
                if not others:
                    others.append(start(1))
                raise

    Patience(threading.Event(), polls=True, crowded=True).work(Late())
    assert others, "the first wait returned before the second member started"
    others[0].wait()
    assert [one.tolist() for one in memory] == [[11, 11, 11]] * 2


class Once:
    """A transfer of gloo, of which a second wait never returns."""

    def __init__(self) -> None:
        self.waited = False

    def wait(self) -> None:
        assert not self.waited, "the host waited twice for one transfer"
        self.waited = True


def test_a_transfer_is_waited_for_once() -> None:
    """Waits for a transfer in the thread of a wait that a host can abandon. The host then takes the result without a
    second wait.
    """
    pytest.importorskip("torch")
    from real.gloo_calls import Pending

    finished: list[str] = []
    transfer = Pending([Once()], polled=False, finish=lambda: finished.append("came"))
    WatchedWork(transfer).done.wait()
    transfer.wait()
    assert finished
    twin = Once()
    WatchedWork(twin).done.wait()
    with pytest.raises(AssertionError, match="the host waited twice for one transfer"):
        twin.wait()
