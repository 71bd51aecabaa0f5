"""The records of CUDA graphs: the calls that a capture keeps, and the calls that a replay makes again.

A kept call is an op like others: it has an address and a place in the source, and faults and delays may name it. It has
no sequence number and no event numbers yet. A call of a replay has the site and place of the kept call. No fault or
delay applies to it, because on a device the whole replay is one launch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from sys import _getframe
from types import FrameType
from typing import Any, TypeAlias

from dpsim.backend.journal.call_site import place_of
from dpsim.backend.journal.fault_injector import FaultInjector
from dpsim.backend.journal.issue import Issue

Row: TypeAlias = tuple[str, str, str, str | None, tuple[Any, ...]]
"""A call of a replay: kind, site, place, the communicator if it is a collective, and the fields of its record. For a
collective, these are the stream, the communicator, and the fields after `seq`.
"""


class GraphRecords(FaultInjector):
    """The part of a `Journal` that handles graphs."""

    turn: Callable[[str, int], None] | None

    @abstractmethod
    def _arrive(self, site: str, frame: FrameType) -> str:
        """The thread arrives at a site again."""

    @abstractmethod
    def _take_turn(self, site: str) -> None:
        """Waits for the thread's turn, unless the thread has already had its turn for this op."""

    def keep(self, stream: str, graph: str, call: str, site: str, fields: Any, frame: FrameType) -> tuple[str, int]:
        """Records a call that a capture keeps. Returns its place in the source and its delay in ns."""
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
        """As `keep`, for a collective or transfer. Returns the issues to keep. `form`: the fields of its record."""
        where = self._arrive(site, frame)
        if self.turn is not None:
            self._take_turn(site)
        issues = self._admit(site, None, where, issue, stream) if self._injections else [issue]
        for number, one in enumerate(issues):
            self._keep(stream, graph, call, site, self._again(site) if number else self.ordinal, where, form(one))
        return where, issues

    def _keep(self, stream: str, graph: str, call: str, site: str, ordinal: int, where: str, fields: Any) -> None:
        self._sink(("kept", self.step, self.thread, site, ordinal, where, stream, graph, call, fields))

    def again(self, call: str, site: str, where: str, fields: tuple[Any, ...]) -> None:
        """Records a call of a replay, at the site of the kept call, without faults or delays."""
        known = self._sites.get(site) or self._first(site)
        self.site, self.ordinal = site, known.count
        known.count += 1
        self._sink((call, self.step, self.thread, site, self.ordinal, where) + fields)  # noqa: RUF005

    def rows(self, rows: Iterable[Row]) -> None:
        """As `again` for each call, in one loop: the calls of a graph cost nothing but their records."""
        step, thread, sites, seqs, sink = self.step, self.thread, self._sites, self.seqs, self._sink
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
        """Records that a graph's pool gives memory to another allocation."""
        self._sink(("free", self.step, self.thread, site, ordinal, where, stream, buffer))

    def place(self, site: str) -> str:
        """Returns the program's line that called the method of the contract which called this."""
        return place_of(site, _getframe(2))

    def next_seq(self, line: Any) -> int:
        """Returns the next number of a collective on a communicator, or of a transfer (communicator, op, peer)."""
        seq = self.seqs[line]
        self.seqs[line] = seq + 1
        return seq
