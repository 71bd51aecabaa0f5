"""Works of a communicator: a program can query them as well as await them. A work of a receive from any source also
returns the sender.

    work = group.all_reduce(mine)           # CallWork
    await work.query("look")                # True if it has ended, else False
    await work.within(5_000_000, "look")    # True, or False if 5 ms passed first
    await work

A backend returns a `CallUnderway` for each call. Programs await most calls and query few. So the backend creates the
state for queries only at the first query, by `queried`, in a new object that replaces the first one.

If the program may abort communicators, its works are `MemberWork`. After an abort of this rank, each await, query and
`within` raises Aborted, also if the call is over or was found over before.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

from dpsim.backend.hosts.work import Outcome, Work
from dpsim.backend.journal.journal import Journal
from dpsim.backend.journal.plain import whole
from dpsim.contract.interface import HostWork, Received


class CallUnderway(Protocol):
    """A call that was started, as the backend represents it."""

    def __call__(self) -> Generator[Any, Any, Any]:
        """Waits until it has ended; returns its result."""

    def queried(self) -> Queryable:
        """Returns an object for the same call that can be queried; of such an object, itself."""


class Queryable(CallUnderway, Protocol):
    """A call that can be queried."""

    def query(self) -> Outcome:
        """The outcome says whether it has ended."""

    def within(self, timeout_ns: int) -> Outcome:
        """Waits until it has ended or the time-out passes. The outcome says whether it has ended."""


class CallWork(Work, HostWork[Any]):
    """A collective or transfer of a host."""

    __slots__ = ()

    _outcome: CallUnderway | None

    def query(self, site: str) -> Work:
        pending, (journal, of, number) = self._outcome, self._of
        journal.on("look", journal.thread)
        journal.note("look", site, (of, number, None))
        if pending is None:
            return Work(journal, self._is_over)
        queried = self._outcome = pending.queried()
        return Work(journal, queried.query())

    # Repeats code of `query`: `note` records the line that called the method which calls `note`.
    def within(self, timeout_ns: int, site: str) -> Work:
        most = whole(timeout_ns, "the time-out", site, 1)
        pending, (journal, of, number) = self._outcome, self._of
        journal.on("look", journal.thread)
        journal.note("look", site, (of, number, most))
        if pending is None:
            return Work(journal, self._is_over)
        queried = self._outcome = pending.queried()
        return Work(journal, queried.within(most))

    def _is_over(self) -> Generator[Any, Any, bool]:
        return True
        yield


class WorksGroup(Protocol):
    """The methods of a communicator that its works use."""

    def unless_aborted(self, site: str) -> Generator[Any, Any, None]:
        """Raises Aborted if this rank has aborted the communicator."""

    def took(self, source: int) -> None:
        """A receive from any source has ended."""


class MemberCall:
    """A call on a communicator that this rank may abort. It asks first whether the rank has."""

    __slots__ = ("_call", "_communicator", "_site")

    def __init__(self, communicator: WorksGroup, site: str, call: CallUnderway) -> None:
        self._communicator, self._site, self._call = communicator, site, call

    def __call__(self) -> Generator[Any, Any, Any]:
        yield from self._communicator.unless_aborted(self._site)
        return (yield from self._call())

    def queried(self) -> MemberCall:
        self._call = self._call.queried()
        return self

    def query(self) -> Outcome:
        return self._asks(self._call.queried().query())

    def within(self, timeout_ns: int) -> Outcome:
        return self._asks(self._call.queried().within(timeout_ns))

    def _asks(self, outcome: Outcome) -> Outcome:
        def asks() -> Generator[Any, Any, bool]:
            yield from self._communicator.unless_aborted(self._site)
            over: bool = yield from outcome()
            if not over:  # another thread may have aborted meanwhile
                yield from self._communicator.unless_aborted(self._site)
            return over

        return asks


class MemberWork(CallWork):
    """A collective or transfer of a host whose program may abort communicators."""

    __slots__ = ("_communicator",)

    def __init__(self, journal: Journal, communicator: WorksGroup, outcome: CallUnderway) -> None:
        super().__init__(journal, MemberCall(communicator, journal.site, outcome))
        self._communicator = communicator

    def _is_over(self) -> Generator[Any, Any, bool]:
        _, site, _ = self._of
        yield from self._communicator.unless_aborted(site)
        return True


class AnyWork(MemberWork):
    """A receive from any source."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, Received]:
        received: Received = yield from super().__await__()
        self._communicator.took(received.source)
        return received
