"""Tests of the event after a replay, with a device that does nothing. The host records it when a stream or host may
wait for it. It also does so before it puts anything else on the stream that may wait.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dpsim.contract.interface import Event, Graph
from real.threads import drive
from tests.real.null_device import NullCalls, null_rank

pytest.importorskip("torch")


class Case:
    """Two graphs with a sum on dp, and one with a sum on ep, all captured on main."""

    def __init__(self) -> None:
        self.calls = NullCalls()
        self.rank = null_rank(self.calls, aborts=True)
        self.main, self.side = self.rank.stream("main"), self.rank.stream("side")
        self.buffer = self.main.alloc(4, "int32", "buffer")
        self.first, self.second, self.other = (self.graph(name) for name in ("dp.first", "dp.second", "ep"))
        self.alone = self.graph("none")
        self.before: Event = self.side.record()

    def graph(self, name: str) -> Graph:
        graph = self.rank.graph(name)

        async def captures() -> None:
            async with graph.capture(self.main):
                if name == "none":
                    self.main.launch("noop", noop, writes=[self.buffer])
                else:
                    self.sum(name.split(".")[0])

        drive(captures())
        return graph

    def sum(self, kind: str = "dp", side: bool = False) -> None:
        self.rank.device(kind).all_reduce(self.buffer, self.side if side else self.main)

    def told(self, does: Callable[[Case], object]) -> list[str]:
        """Returns the calls that the device receives after a replay, except those that set the current stream."""
        self.first.replay(self.main, "go")
        before = len(self.calls.told)
        does(self)
        return [one for one in self.calls.told[before:] if "current" not in one]


def events(told: list[str]) -> int:
    return sum(one.startswith("event") for one in told)


@pytest.mark.parametrize("name", ["first", "second"])
def test_replays_one_behind_the_other_record_nothing(name: str) -> None:
    case = Case()
    assert case.told(lambda case: getattr(case, name).replay(case.main, "go")) == ["graph replays on 1"]


@pytest.mark.parametrize(
    "does",
    [
        lambda case: case.main.wait(case.before),
        lambda case: case.main.wait_flag(case.rank.flag("f"), "flag"),
        lambda case: case.alone.replay(case.main, "go"),
        lambda case: case.sum("ep"),
        lambda case: case.sum("dp"),
        lambda case: case.other.replay(case.main, "go"),
        lambda case: case.sum("dp", side=True),
        lambda case: case.second.replay(case.side, "go"),
        lambda case: case.rank.device("dp").abort(),
    ],
    ids=[
        "wait",
        "flag",
        "graph of none",
        "other communicator",
        "this one",
        "graph of another",
        "other stream",
        "replay there",
        "abort",
    ],
)
def test_an_event_is_recorded_before_work_that_may_wait(does: Callable[[Case], object]) -> None:
    case = Case()
    first, *others = case.told(does)
    assert first.startswith("event ")
    assert first.endswith(" on main")
    assert not any(one.startswith("event") for one in others[:1])


def test_kernels_and_reads_wait_for_no_rank() -> None:
    case = Case()
    told = case.told(lambda case: case.buffer.read("read"))
    assert events(told) == 1, "the read records its own event and no other"
    assert case.told(lambda case: case.main.launch("noop", noop, writes=[case.buffer])) == []


def noop(buffer: object) -> None:
    pass
