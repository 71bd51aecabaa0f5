"""`threading.Lock` and `RLock` for a rank with several threads: a thread that waits for a lock waits in the simulation.

dpsim schedules the threads of the process, one at a time (`dpsim.torch.child.threads`), so the state of a lock is a
plain variable. If two threads acquire a lock at a line of the user's program, the explorer tries both orders. If a
library acquires a lock, it tries only one.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

from dpsim.torch.child.clocks import clock
from dpsim.torch.child.frames import is_users
from dpsim.torch.child.threads import Speaker, choose, let, me, stand

numbers = itertools.count()
"""Numbers for the names of locks, queues, events and semaphores."""


def by_user() -> bool:
    """Returns whether a line of the user's program calls the function that calls this one."""
    return is_users(sys._getframe(2).f_code)


class Lock:
    """Replaces `threading.Lock`. `released`: the time of the last release."""

    def __init__(self) -> None:
        self._held = False
        self.released = 0
        self._holder: Speaker | None = None
        self._stand: list[Speaker] = []
        self._name = f"lock.{next(numbers)}"

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if by_user():
            choose(self._name)
        return self._take(blocking, timeout)

    def _take(self, blocking: bool = True, timeout: float = -1) -> bool:
        while self._held:
            if not blocking or timeout == 0 or not stand(self._held_by(), self._stand, timeout):
                return False
        self._held, self._holder = True, me()
        clock().after(self.released)
        return True

    def _held_by(self) -> str:
        return self._name if self._holder is None else f"{self._name}_of_{self._holder.name}"

    def release(self) -> None:
        if not self._held:
            raise RuntimeError("release unlocked lock")
        self._held, self.released = False, clock().passed
        if self._stand:
            let(self._stand.pop(0))

    def locked(self) -> bool:
        return self._held

    def _is_owned(self) -> bool:
        return self._held

    def _at_fork_reinit(self) -> None:
        self._held, self._stand = False, []

    def __enter__(self) -> bool:
        if by_user():
            choose(self._name)
        return self._take()

    def __exit__(self, *_: Any) -> None:
        self.release()


class RLock:
    """Replaces `threading.RLock`."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._owner: Speaker | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        return self._take(by_user(), blocking, timeout)

    def _take(self, users: bool, blocking: bool = True, timeout: float = -1) -> bool:
        own = me()
        if self._count and self._owner is own:
            self._count += 1
            return True
        if users:
            choose(self._lock._name)
        if not self._lock._take(blocking, timeout):
            return False
        self._owner, self._count = own, 1
        return True

    def release(self) -> None:
        if not self._count or self._owner is not me():
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            self._owner = None
            self._lock.release()

    def _is_owned(self) -> bool:
        return bool(self._count) and self._owner is me()

    def _release_save(self) -> tuple[int, Speaker | None]:
        saved = self._count, self._owner
        self._count, self._owner = 0, None
        self._lock.release()
        return saved

    def _acquire_restore(self, saved: tuple[int, Speaker | None]) -> None:
        self._lock._take()
        self._count, self._owner = saved

    def _at_fork_reinit(self) -> None:
        self.__init__()  # type: ignore[misc]

    def __enter__(self) -> bool:
        return self._take(by_user())

    def __exit__(self, *_: Any) -> None:
        self.release()
