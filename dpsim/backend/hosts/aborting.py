"""Communicators that a rank can abort, on hosts and devices: checks and records. The backend adds the abort itself.

    work = communicator.barrier()
    communicator.abort(site="give_up")
    communicator.barrier()                  # Aborted
    await work                              # Aborted, even if the barrier was over

A call asks `refuse_aborted`. Each await, query and wait with a time-out of earlier work asks `unless_aborted` first, in
one place for all backends (`dpsim.backend.hosts.works.MemberCall`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Any

from dpsim.backend.journal.journal import Journal
from dpsim.contract.interface import Aborted


class Abortable(ABC):
    """The part of a communicator that aborts need. `aborted`: whether this rank has aborted it."""

    __slots__ = ()

    journal: Journal
    name: str
    aborted: bool

    def abort(self, *, site: str | None = None) -> None:
        site = site or f"{self.name}.abort"
        if not self.journal.shared.aborts:
            raise RuntimeError(
                f"{site}: the program does not declare that it aborts communicators; write `aborts = True` in its class"
            )
        self.journal.about = "communicator", self.name, "abort"
        self.journal.note("abort", site, (self.name,))
        if not self.aborted:
            self.aborted = True  # type: ignore[misc]  # the subclasses define the slot
            self._abort()

    def refuse_aborted(self, site: str) -> None:
        """Raises Aborted for a call, in the turn of its thread."""
        if self.journal.turn is not None:
            self.journal.about = "communicator", self.name, "call"
            self.journal.come(site)
        if self.aborted:
            raise self.error(site)

    def unless_aborted(self, site: str) -> Generator[Any, Any, None]:
        """Raises Aborted if this rank has aborted the communicator, for an await of the call at `site`."""
        if self.aborted:
            raise self.error(site)
        return
        yield

    def error(self, site: str) -> Aborted:
        return Aborted(f"{site}: rank {self.journal.rank} has aborted {self.name}")

    @abstractmethod
    def _abort(self) -> None:
        """Ends pending waits of this rank, and lets the peers see that this rank has left. Does not wait."""
