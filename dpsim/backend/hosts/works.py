"""Works of a communicator that are more than an await: they can be asked, and one from any source says who sent.

    work = group.all_reduce(mine)           # CallWork
    await work.query("look")                # False, perhaps, or True
    await work.within(5_000_000, "look")    # False where 5 ms passed, or True
    await work

A backend gives a `CallUnderway` for each call. Most are awaited and never asked. So what looking needs is made at the
first look, and takes the place of the former (`asked`).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

from dpsim.backend.hosts.work import Outcome, Work
from dpsim.backend.journal.journal import Journal
from dpsim.backend.journal.plain import whole
from dpsim.contract.interface import HostWork, Received


class CallUnderway(Protocol):
    """A call that was started, as a backend has it."""

    def __call__(self) -> Generator[Any, Any, Any]:
        """Wait until it is over; its result."""

    def asked(self) -> Asks:
        """The same call, to be asked from now on; the same object from the second time on."""


class Asks(CallUnderway, Protocol):
    """A call that can be asked."""

    def query(self) -> Outcome:
        """Learns whether it is over."""

    def within(self, timeout_ns: int) -> Outcome:
        """Waits until it is over or the time is up. Learns whether it is over."""


class CallWork(Work, HostWork[Any]):
    """A collective or transfer of a host."""

    __slots__ = ()

    _outcome: CallUnderway | None

    def query(self, site: str) -> Work:
        pending, (journal, of, number) = self._outcome, self._of
        journal.on("look", journal.thread)
        journal.note("look", site, (of, number, None))
        if pending is None:
            return Work(journal, _is_over)
        asked = self._outcome = pending.asked()
        return Work(journal, asked.query())

    # Not shared with `query`: `note` names the line that calls the method which calls it.
    def within(self, timeout_ns: int, site: str) -> Work:
        most = whole(timeout_ns, "the time-out", site, 1)
        pending, (journal, of, number) = self._outcome, self._of
        journal.on("look", journal.thread)
        journal.note("look", site, (of, number, most))
        if pending is None:
            return Work(journal, _is_over)
        asked = self._outcome = pending.asked()
        return Work(journal, asked.within(most))


def _is_over() -> Generator[Any, Any, bool]:
    return True
    yield


class Receives(Protocol):
    """What a receive from any source needs of its communicator."""

    def took(self, source: int) -> None:
        """The receive is over."""


class AnyWork(CallWork):
    """A receive from any source."""

    __slots__ = ("_communicator",)

    def __init__(self, journal: Journal, communicator: Receives, outcome: CallUnderway) -> None:
        super().__init__(journal, outcome)
        self._communicator = communicator

    def __await__(self) -> Generator[Any, Any, Received]:
        received: Received = yield from super().__await__()
        self._communicator.took(received.source)
        return received
