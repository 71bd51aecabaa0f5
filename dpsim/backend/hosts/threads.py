"""Host threads of a rank and the flags between them: checks and records.

The threads of a rank share all objects of the rank, and each writes its own records into the rank's journal. Each
thread has one `Journal` object. The rank's objects refer to a *front*: a journal that always acts as that of the
calling thread. The backend creates the front. The simulation switches it when another thread continues; real threads
look theirs up by `threading.local`.

    flag = rank.flag("baton.1")
    thread = rank.start("ubatch.1", program)
    flag.set("hand_over")
    error = await thread.join("join")               # its exception as text, or None
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine
from inspect import iscoroutinefunction
from typing import Any, Protocol, TypeAlias, TypeVar

from dpsim.backend.hosts.work import Outcome, Work
from dpsim.backend.journal.call_site import is_word
from dpsim.backend.journal.journal import Journal
from dpsim.contract.interface import Flag, Rank, Thread
from dpsim.contract.ops import MAIN

ThreadProgram: TypeAlias = Callable[[Rank], Coroutine[Any, Any, None]]

T = TypeVar("T")


def front_of(original: T) -> T:
    """Returns an object with the fields of `original`, until the backend gives it the fields of another one."""
    front = object.__new__(type(original))
    front.__dict__ = original.__dict__
    return front


class JournaledFlag(Flag):
    """A flag of a rank."""

    __slots__ = ("journal",)

    def __init__(self, journal: Journal, name: str) -> None:
        self.journal = journal
        self.name = name

    def set(self, site: str) -> None:
        self.journal.about = "flag", self.name, "set"
        late_ns = self.journal.note("flag", site, (self.name, "set"))
        if late_ns:
            self._stand(late_ns)
        self._set()

    def clear(self, site: str) -> None:
        self.journal.about = "flag", self.name, "clear"
        late_ns = self.journal.note("flag", site, (self.name, "clear"))
        if late_ns:
            self._stand(late_ns)
        self._clear()

    def wait(self, site: str) -> Work:
        self.journal.about = "flag", self.name, "wait"
        late_ns = self.journal.note("flag", site, (self.name, "wait"))
        return Work(self.journal, self._wait(late_ns))

    def query(self, site: str) -> Work:
        self.journal.about = "flag", self.name, "query"
        late_ns = self.journal.note("flag", site, (self.name, "query"))
        return Work(self.journal, self._query(late_ns))

    @abstractmethod
    def _stand(self, ns: int) -> None:
        """Suspends the thread for `ns`: a planted delay."""

    @abstractmethod
    def _set(self) -> None:
        """Sets the flag."""

    @abstractmethod
    def _clear(self) -> None:
        """Clears the flag."""

    @abstractmethod
    def _wait(self, late_ns: int) -> Outcome:
        """Waits until the flag is set, then for `late_ns`. The outcome is None."""

    @abstractmethod
    def _query(self, late_ns: int) -> Outcome:
        """The outcome says whether the flag is set; it arrives `late_ns` later."""


class JournaledThread(Thread):
    """A host thread that the program started. `noticed`: whether a thread has joined it and got its exception."""

    __slots__ = ("journal", "noticed")

    def __init__(self, journal: Journal, name: str) -> None:
        self.journal = journal
        self.name = name
        self.noticed = False

    def join(self, site: str) -> Work:
        self.journal.about = "thread", self.name, "join"
        self.journal.note("thread", site, (self.name, "join"))
        return Work(self.journal, self._join())

    @abstractmethod
    def _join(self) -> Outcome:
        """Waits for the end of the thread. The outcome is its exception as text, or None. Sets `noticed`."""

    @property
    @abstractmethod
    def over(self) -> bool:
        """Whether the thread has ended."""


class Starter(Protocol):
    """The methods of a rank that the start of a thread uses."""

    journal: Journal
    started: dict[str, JournaledThread]


def refuse_start(rank: Starter, name: str, program: Any) -> None:
    """Raises the errors of `Rank.start`."""
    if not is_word(name) or name == MAIN:
        raise ValueError(f"a thread cannot be named {name!r}: a name is printable ASCII without spaces, and not main")
    if not iscoroutinefunction(program):
        raise TypeError(f"thread {name}: {program!r} is no coroutine function; write `async def {name}(rank)`")
    if rank.journal.shared.front is None:
        raise RuntimeError(
            f"thread {name}: the program does not declare that it has threads; write `threaded = True` in its class"
        )


def refuse_again(rank: Starter, name: str) -> None:
    """Raises RuntimeError if such a thread runs. The starter has its turn, so no other thread starts one meanwhile."""
    earlier = rank.started.get(name)
    if earlier is not None and not earlier.noticed:
        raise RuntimeError(f"a thread {name} is not joined yet; join it, or use another name")
