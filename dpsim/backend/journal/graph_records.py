"""What the journal of a host thread writes of graphs: calls that a capture keeps, and those that a replay makes again.

A kept call is an op like others: it has an address, a place in the source, and faults and delays may name it. It has no
sequence number and no event numbers yet. A call of a replay has the site and place of the kept call. No fault or delay
applies to it, because on a device a replay is one launch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable
from sys import _getframe
from types import FrameType
from typing import Any, NoReturn, Protocol, TypeAlias

from dpsim.backend.journal.call_site import Site, place_of
from dpsim.backend.journal.injection import Injections
from dpsim.backend.journal.issue import Issue
from dpsim.contract.ops import RawRecord


class Lawful(Protocol):
    """What a journal needs of a capture."""

    def check(self, journal: Any, call: str, site: str) -> None:
        """Raise CaptureError if a thread may not do that now."""

    def refuse(self, code: int, message: str) -> NoReturn:
        """Raise CaptureError."""


Row: TypeAlias = tuple[str, str, str, str | None, tuple[Any, ...]]
"""A call as a replay makes it: kind, site, place, the communicator if it is a collective, and the fields of its record.
A collective has the fields stream, communicator, and those after `seq`.
"""


class GraphRecords(ABC):
    """The part of a `Journal` that graphs use."""

    step: int
    thread: str
    site: str
    ordinal: int
    _sites: dict[str, Site]
    _sink: Callable[[RawRecord], None]
    _seqs: defaultdict[Any, int]
    _injections: Injections
    turn: Callable[[str, int], None] | None

    @abstractmethod
    def _arrive(self, site: str, frame: FrameType) -> str:
        """The thread arrives at a site once more."""

    @abstractmethod
    def _first(self, site: str) -> Site:
        """The thread arrives at a site for the first time."""

    @abstractmethod
    def _take_turn(self, site: str) -> None:
        """Stand still until it is the thread's turn, unless the thread has already had its turn for this op."""

    @abstractmethod
    def _again(self, site: str) -> int:
        """The ordinal of an op that is repeated."""

    @abstractmethod
    def _meet(self, site: str, ordinal: int, where: str, late: bool = True) -> int:
        """The delay of an op in ns."""

    @abstractmethod
    def _admit(
        self, site: str, communicator: str | None, seq: int, where: str, issue: Issue, stream: str | None
    ) -> list[Issue]:
        """What the scenario makes of a collective or transfer."""

    def keep(self, stream: str, graph: str, call: str, site: str, fields: Any, frame: FrameType) -> tuple[str, int]:
        """Journal a call that a capture keeps: at which place of the source, and its delay in ns, are the answer."""
        where = self._arrive(site, frame)
        if self.turn is not None:
            self._take_turn(site)
        delay = self._meet(site, self.ordinal, where) if self._injections else 0
        self._keep(stream, graph, call, site, self.ordinal, where, fields)
        return where, delay

    def keep_issue(
        self,
        stream: str,
        graph: str,
        call: str,
        site: str,
        issue: Issue,
        form: Callable[[Issue], Any],
        frame: FrameType,
    ) -> tuple[str, list[Issue]]:
        """The same of a collective or transfer: the answer says what to keep. `form`: the fields of its record."""
        where = self._arrive(site, frame)
        if self.turn is not None:
            self._take_turn(site)
        issues = self._admit(site, None, 0, where, issue, stream) if self._injections else [issue]
        for number, one in enumerate(issues):
            self._keep(stream, graph, call, site, self._again(site) if number else self.ordinal, where, form(one))
        return where, issues

    def _keep(self, stream: str, graph: str, call: str, site: str, ordinal: int, where: str, fields: Any) -> None:
        self._sink(("kept", self.step, self.thread, site, ordinal, where, stream, graph, call, fields))

    def again(self, call: str, site: str, where: str, fields: tuple[Any, ...]) -> None:
        """Journal a call of a graph as a replay makes it: at its site, where nothing is injected."""
        known = self._sites.get(site) or self._first(site)
        self.site, self.ordinal = site, known.count
        known.count += 1
        self._sink((call, self.step, self.thread, site, self.ordinal, where) + fields)  # noqa: RUF005

    def rows(self, rows: Iterable[Row]) -> None:
        """Journal calls of a replay one after the other, as `again` does for each. One loop writes them all, since the
        calls of a graph on a device cost no more than their records.
        """
        step, thread, sites, seqs, sink = self.step, self.thread, self._sites, self._seqs, self._sink
        for call, site, where, line, form in rows:
            known = sites.get(site) or self._first(site)
            ordinal = known.count
            known.count = ordinal + 1
            if line is None:
                sink((call, step, thread, site, ordinal, where) + form)  # noqa: RUF005
            else:
                stream, name, rest = form
                seq = seqs[line]
                seqs[line] = seq + 1
                sink((call, step, thread, site, ordinal, where, stream, name, seq) + rest)  # noqa: RUF005
            self.site, self.ordinal = site, ordinal

    def free_again(self, stream: str, site: str, ordinal: int, where: str, buffer: int) -> None:
        """Journal that memory of a graph's pool is given out to another."""
        self._sink(("free", self.step, self.thread, site, ordinal, where, stream, buffer))

    def place(self, site: str) -> str:
        """Where the program called the method of the contract that called this."""
        return place_of(site, _getframe(2))

    def next_seq(self, line: Any) -> int:
        """The next number of a collective on a communicator, or of a transfer of a line (communicator, op, peer)."""
        seq = self._seqs[line]
        self._seqs[line] = seq + 1
        return seq
