"""Works of a communicator that are more than an await: a receive from any source says who sent.

received = await AnyWork(journal, communicator, outcome)
received.source                         # the communicator knows from here on how far the line of that rank has come
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

from dpsim.backend.hosts.work import Outcome, Work
from dpsim.backend.journal.journal import Journal
from dpsim.contract.interface import Received


class Receives(Protocol):
    """What a receive from any source needs of its communicator."""

    def took(self, source: int) -> None:
        """The receive is over."""


class AnyWork(Work):
    """A receive from any source."""

    __slots__ = ("_communicator",)

    def __init__(self, journal: Journal, communicator: Receives, outcome: Outcome) -> None:
        super().__init__(journal, outcome)
        self._communicator = communicator

    def __await__(self) -> Generator[Any, Any, Received]:
        received: Received = yield from super().__await__()
        self._communicator.took(received.source)
        return received
