"""Tests of aborts on a GPU, with a device that does nothing: only a wait that is ordered after the aborted call raises
Aborted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dpsim.contract.interface import Aborted, Stream
from real.rank import RealRank
from tests.real.null_device import NullCalls, null_rank

pytest.importorskip("torch")


class Case:
    """A rank whose device has reached what `calls.passed` returns, with work on its main stream."""

    def __init__(self) -> None:
        self.calls = NullCalls()
        self.rank: RealRank = null_rank(self.calls, aborts=True)
        self.main, self.side = self.rank.stream("main"), self.rank.stream("side")
        self.buffer = self.main.alloc(4, "int32", "buffer")

    def sum(self, kind: str = "dp", stream: Stream | None = None) -> None:
        self.rank.device(kind).all_reduce(self.buffer, stream or self.main)

    def abort(self, kind: str = "dp", over: bool = False) -> None:
        """Aborts the communicator. `over`: the work on it has already ended."""
        self.calls.passed = lambda: over
        self.rank.device(kind).abort()
        self.calls.passed = lambda: True  # the abort ended the kernels

    def read(self, stream: Stream) -> Awaitable[Any]:
        return self.buffer.read("read", stream)


def is_aborted(wait: Awaitable[Any]) -> bool:
    """Returns whether this wait raises Aborted. Waits of a real backend never suspend."""
    try:
        next(wait.__await__())
    except StopIteration:
        return False
    except Aborted:
        return True
    raise AssertionError("it was suspended")


def test_an_abort_reaches_the_work_behind_it_and_no_other() -> None:
    case = Case()
    case.sum()
    behind, event = case.read(case.main), case.main.record()
    case.abort()
    assert is_aborted(behind)
    assert is_aborted(event.synchronize("event"))
    assert is_aborted(case.read(case.main)), "a read that begins after the abort is cut off as well"
    assert not is_aborted(case.read(case.side))


@pytest.mark.parametrize("waits", ["event", "again", "stream"])
def test_an_abort_reaches_a_stream_that_waited_for_the_sum(waits: str) -> None:
    case = Case()
    event = case.main.record()
    case.sum()
    if waits == "again":
        case.main.record(event)
    elif waits == "event":
        event = case.main.record()
    if waits == "stream":
        case.side.wait_stream(case.main)
    else:
        case.side.wait(event)
    case.abort()
    assert is_aborted(case.read(case.side))


def test_an_event_recorded_before_the_sum_carries_no_abort() -> None:
    case = Case()
    event = case.main.record()
    case.sum()
    case.side.wait(event)
    case.abort()
    assert not is_aborted(case.read(case.side))


def test_an_abort_reaches_the_other_stream_of_the_communicator() -> None:
    """A communicator orders its calls, whatever their streams are."""
    case = Case()
    case.sum()
    case.sum(stream=case.side)
    case.abort()
    assert is_aborted(case.read(case.side))


def test_work_that_a_host_observed_is_not_aborted() -> None:
    case = Case()
    case.sum(stream=case.side)
    assert not is_aborted(case.read(case.side))
    case.sum()
    case.abort()
    assert is_aborted(case.read(case.main))
    assert not is_aborted(case.read(case.side)), "the sum of the stream side had ended before the abort"


def test_an_abort_reaches_a_communicator_that_waits_for_the_aborted_sum() -> None:
    """A sum on the side stream waits for the sum before it on the communicator, and that one for the aborted sum of
    another communicator.
    """
    case = Case()
    case.sum("ep")
    case.sum()
    case.sum(stream=case.side)
    case.abort("ep")
    assert is_aborted(case.read(case.side))


@pytest.mark.parametrize("what", [Case.sum, lambda case: None])
def test_an_abort_of_what_is_over_breaks_nothing_off(what: Callable[[Case], None]) -> None:
    case = Case()
    what(case)
    case.abort(over=True)
    assert not is_aborted(case.read(case.main))


def test_another_communicator_continues() -> None:
    case = Case()
    case.sum("ep")
    case.abort()
    assert not is_aborted(case.read(case.main))
