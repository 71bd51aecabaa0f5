"""Stores (like torch's TCPStore): ranks that share no communicator yet find one another there. Checks and records.

class MyStore(JournaledStore):
    def _put(self, key, value): ...                        # sends the value; does not wait

The journal records outcomes as plain data: the port of an opened or joined store, and the value of a key.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator
from sys import _getframe
from typing import Any

from dpsim.backend.hosts.work import Outcome, Work
from dpsim.backend.journal.journal import Journal
from dpsim.backend.journal.plain import PLAIN, check_plain, whole
from dpsim.contract.interface import Frozen, Store

MAX_PORT = 65535


class JournaledStore(Store):
    """A store, as one rank uses it: the rank listens itself, or is connected."""

    __slots__ = ("closed", "journal")

    def __init__(self, journal: Journal, node: int, port: int) -> None:
        self.journal = journal
        self.node = node
        self.port = port
        self.closed = False

    def set(self, key: str, value: Frozen, site: str) -> None:
        if value is None:
            raise ValueError(f"{site}: a value cannot be None, because get returns None when its time-out passes")
        if type(value) not in PLAIN or value != value:
            check_plain(value, "the value", site, named=False)
        self._use(site, "set", key, value)
        self._put(key, value)

    def get(self, key: str, site: str, *, timeout_ns: int | None = None) -> Work:
        wait = None if timeout_ns is None else whole(timeout_ns, "the time-out", site, 0)
        self._on()
        look_up(self.journal, site)
        self._use(site, "get", key, wait)
        return Work(self.journal, self._get(key, wait))

    def add(self, key: str, amount: int, site: str) -> Work:
        return self._changes("add", key, (whole(amount, "the amount", site),), site)

    def compare_set(self, key: str, expected: Frozen, desired: Frozen, site: str) -> Work:
        if desired is None:
            raise ValueError(f"{site}: a value cannot be None, because get returns None when its time-out passes")
        for value in (expected, desired):
            check_plain(value, "the value", site, named=False)
        return self._changes("compare_set", key, (expected, desired), site)

    def delete(self, key: str, site: str) -> Work:
        return self._changes("delete", key, (), site)

    def _changes(self, how: str, key: str, operands: tuple[Any, ...], site: str) -> Work:
        self._on()
        look_up(self.journal, site)
        self._use(site, how, key, operands, 4)
        return Work(self.journal, self._change(key, how, operands))

    def close(self, site: str) -> None:
        self._use(site, "close", "", None)
        self.closed = True
        self._close()

    def _on(self) -> None:
        if self.journal.turn is not None:
            self.journal.on("store", f"{self.node}:{self.port}")

    def _use(self, site: str, how: str, key: str, value: Frozen, above: int = 3) -> None:
        """Records a use. `above`: the number of frames between `note_at` and the program's frame."""
        if self.closed:
            raise RuntimeError(f"{site}: the store at port {self.port} of node {self.node} was closed by this rank")
        if type(key) is not str:
            raise TypeError(f"{site}: the key {key!r} of a store is no text")
        self._on()
        fields = self.node, self.port, how, key, value
        self.journal.note_at("store", site, fields, _getframe(above - 1))

    @abstractmethod
    def _put(self, key: str, value: Frozen) -> None:
        """Sends a value, without waiting."""

    @abstractmethod
    def _get(self, key: str, timeout_ns: int | None) -> Outcome:
        """Waits for a value. The outcome is the value, or None if the time-out passes."""

    @abstractmethod
    def _change(self, key: str, how: str, operands: tuple[Any, ...]) -> Outcome:
        """The outcome is the answer (`dpsim.contract.rules.store_changes`), or None if the listener has left."""

    @abstractmethod
    def _close(self) -> None:
        """Leaves the store. The listener frees the port."""


class StoreWork(Work):
    """The awaited result of opening or joining: a store or None. The journal records its port."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, Store | None]:
        journal, site, ordinal = self._of
        try:
            store: Store | None = yield from self._result()
        except RuntimeError as error:
            journal.failed(site, ordinal, error)
            raise
        journal.learned(site, ordinal, None if store is None else store.port)
        return store


def look_up(journal: Journal, site: str) -> None:
    """Called before a thread uses a store: raises CaptureError if a capture forbids it, in the turn of the thread."""
    journal.come(site)
    if journal.capture is not None:
        journal.capture.check(journal, "look up", site)


def checked_port(port: int, site: str) -> int:
    """Returns a port as an int. Raises ValueError for a number that is no port."""
    port = whole(port, "the port", site, 0)
    if port > MAX_PORT:
        raise ValueError(f"{site}: port {port}: ports are 0 to {MAX_PORT}, and 0 selects any free port")
    return port
