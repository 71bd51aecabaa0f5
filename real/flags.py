"""Flags between the host threads of a real rank.

Each wait has its own event, made when the wait is issued. So a set releases the threads that wait *then*, as the
journal has it, even if the flag is cleared before they look:

    wait (u1) | set, clear (main) | u1 goes on

Rejected: one `threading.Event` a flag. A wait that polls, so that it can be called off, misses a set that is cleared
between two polls. So does a wait whose thread was held up between its record and the wait.

A stream looks at the flag itself, when it reaches that point (`Stream.wait_flag`). It has no event. But the device of
the rank has a copy of the flag (`Seen`), which is written with it from the first such wait on.
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
    """A flag as streams see it: a `threading.Event`, or a word of memory."""

    def set(self) -> None: ...
    def clear(self) -> None: ...


S = TypeVar("S", bound=Seen)


class RealFlag(JournaledFlag):
    """A flag of a rank, and the events of those that wait for it."""

    __slots__ = ("_patience", "_seen", "_set_now", "_waiting")

    def __init__(self, journal: Journal, name: str, patience: Patience) -> None:
        super().__init__(journal, name)
        self._patience = patience
        self._set_now = False
        self._waiting: list[threading.Event] = []
        self._seen: Any = None

    def seen(self, make: Callable[[], S]) -> S:
        """What streams look at. `make`: one that is clear."""
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
        yes = self._set_now  # as the journal has it

        def outcome() -> Generator[Any, Any, bool]:
            self._patience.sleep(late_ns)
            self._patience.check()  # a host that asks in a loop has to hear of it somewhere
            return yes
            yield

        return outcome
