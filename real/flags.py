"""Flags between the host threads of a real rank.

Each wait for a flag creates an event when the program issues the wait. So a set releases the threads that wait *at that
time*, as the journal shows, even if another thread clears the flag before they run:

    wait (u1) | set, clear (main) | u1 continues

Rejected: one `threading.Event` per flag. A wait has to poll so that it can be given up, and would miss a set that is
cleared between two polls. So would a wait whose thread was delayed between its record and the wait.

A stream that waits for a flag polls it when it reaches that point (`Stream.wait_flag`). It does not use these events.
From the first such wait on, the rank's device has a copy of the flag (`Seen`), which each set and clear also writes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar

from dpsim.backend.hosts.threads import JournaledFlag
from dpsim.backend.hosts.work import Outcome
from dpsim.backend.journal.journal import Journal
from real.waiting import Patience


class Seen(Protocol):
    """The copy of a flag for streams: a `threading.Event`, or a word of memory."""

    def set(self) -> None: ...
    def clear(self) -> None: ...


S = TypeVar("S", bound=Seen)


class RealFlag(JournaledFlag):
    """A flag of a rank, with the events of the waiting threads."""

    __slots__ = ("_patience", "_seen", "_set_now", "_waiting")

    def __init__(self, journal: Journal, name: str, patience: Patience) -> None:
        super().__init__(journal, name)
        self._patience = patience
        self._set_now = False
        self._waiting: list[threading.Event] = []
        self._seen: Any = None

    def seen(self, make: Callable[[], S]) -> S:
        """Returns the copy for streams. `make` creates a clear one."""
        if self._seen is None:
            seen = make()
            if self._set_now:
                seen.set()
            self._seen = seen
        found: S = self._seen
        return found

    def _set(self) -> None:
        self._set_now = True
        if self._seen is not None:
            self._seen.set()
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            event.set()

    def _clear(self) -> None:
        self._set_now = False
        if self._seen is not None:
            self._seen.clear()

    def _stand(self, ns: int) -> None:
        self._patience.sleep(ns)

    def _wait(self, late_ns: int) -> Outcome:
        let_go = threading.Event()
        if self._set_now:
            let_go.set()
        else:
            self._waiting.append(let_go)

        def outcome() -> Generator[Any, Any, None]:
            self._patience.event(let_go)
            self._patience.sleep(late_ns)
            return
            yield

        return outcome

    def _query(self, late_ns: int) -> Outcome:
        yes = self._set_now  # in the order of the journal

        def outcome() -> Generator[Any, Any, bool]:
            self._patience.sleep(late_ns)
            self._patience.check()  # a host that only polls must get the error here
            return yes
            yield

        return outcome
