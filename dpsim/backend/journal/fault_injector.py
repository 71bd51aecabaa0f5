"""How a journal applies faults, delays and messages from outside: each at its op, with a record.

A `Journal` looks up faults and delays for each op, by its address. `Injections` computes how a fault changes an issue.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn, Protocol

from dpsim.backend.journal.call_site import Site
from dpsim.backend.journal.injection import STOPS, Injections, stop
from dpsim.backend.journal.issue import Issue
from dpsim.contract.gates import Address, Gate
from dpsim.contract.ops import ORDINAL, SITE, STEP, THREAD, WHERE, RawRecord
from dpsim.contract.world import At, Fault

NOWHERE = At()

OPS_OF_A_CALL = 4
"""The most ops of an inserted call: two allocations, a kernel, and the call. Their ordinals are negative, because they
must shift no address.
"""


class Lawful(Protocol):
    """The methods of a capture that a journal uses."""

    def check(self, journal: Any, call: str, site: str) -> None:
        """Raises CaptureError if a thread may not make that call now."""

    def refuse(self, code: int, message: str) -> NoReturn:
        """Raises CaptureError."""


class FaultInjector(ABC):
    """The part of a `Journal` that handles faults, delays and messages."""

    rank: int
    step: int
    thread: str
    site: str
    ordinal: int
    _sites: dict[str, Site]
    _sink: Callable[[RawRecord], None]
    _injections: Injections
    seqs: defaultdict[Any, int]
    inserted = 0

    @abstractmethod
    def _first(self, site: str) -> Site:
        """The thread arrives at a site for the first time."""

    def _again(self, site: str) -> int:
        """Returns the ordinal of an op that a fault repeats."""
        known = self._sites[site]
        self.ordinal = known.count
        known.count += 1
        return self.ordinal

    @property
    def capture(self) -> Lawful | None:
        """The present capture of this rank, or None."""
        return None

    def here(self) -> Address:
        """The address of the last op."""
        return self.rank, self.thread, self.site, self.ordinal

    def gate(self) -> Gate | None:
        """Returns the gate of the last op, or None."""
        gates = self._injections.gates
        return gates.get((self.thread, self.site, self.ordinal)) if gates else None

    def gate_ahead(self, site: str) -> Gate | None:
        """Returns the gate of this thread's next op at a site, or None."""
        gates = self._injections.gates
        return gates.get((self.thread, site, self.visits(site))) if gates else None

    def visits(self, site: str) -> int:
        """Returns how often this thread has reached a site."""
        known = self._sites.get(site)
        return 0 if known is None else known.count

    def served_after(self) -> Address | None:
        """Returns the call at a store that the store has to serve before the last op; None without such a gate."""
        turns = self._injections.served_after
        return turns.get((self.thread, self.site, self.ordinal)) if turns else None

    def start_delay(self) -> int:
        """Returns how late the thread starts, in ns. First sends the messages from outside that belong to its start."""
        if self._injections:
            self._send(None, None, "")
        late = self._injections.start_ns(self.thread)
        if late:
            self._inject("delay", "start", 0, "", late)
        return late

    def dies(self, site: str, ordinal: int) -> bool:
        """Whether a fault lets the rank die or hang at this op of this thread. If so, none of its threads continues."""
        faults = self._injections.faults(self.thread, site, ordinal) if self._injections else ()
        return any(fault.kind in ("die", "hang") for fault in faults)

    def killed(self, last: RawRecord | None) -> None:
        """A kill ended the rank after that record, its last."""
        thread, step, site, ordinal = self.thread, -1, "start", 0
        if last is not None:
            thread, step, site, ordinal = last[THREAD], last[STEP], last[SITE], last[ORDINAL]
        fields = "kill", 0, (), None, None
        self._sink(("injected", step, thread, site, ordinal, "") + fields)  # noqa: RUF005

    def _admit(self, site: str, communicator: str | None, where: str, issue: Issue, stream: str | None) -> list[Issue]:
        if self.capture is not None and stream is None:
            self.capture.check(self, f"host {issue.op}", site)
        if not self._injections:
            return [issue]
        ordinal, planted = self.ordinal, self._injections
        delay = self._meet(site, ordinal, where)
        faults = [*planted.faults(self.thread, site, ordinal)]
        if communicator is not None:
            seq = self.seqs[communicator]
            planted.come(None, communicator, seq)
            late = planted.collective_delay_ns(communicator, seq)
            if late:
                self._inject("delay", site, ordinal, where, late, At(communicator=communicator, seq=seq))
                delay += late
            faults += planted.collective_faults(communicator, seq)
        if delay:
            issue = issue._replace(delay_ns=delay)
        issues = [issue]
        for fault in faults:
            issues = self._after(fault, issues, site, ordinal, where)
        return issues

    def _after(self, fault: Fault, issues: list[Issue], site: str, ordinal: int, where: str) -> list[Issue]:
        """Returns the issues of a call after one more of its faults. Raises if it stops the rank."""
        planted = self._injections
        after = [one for issue in issues for one in planted.apply(fault, issue)]
        if after != issues:  # otherwise, the fault sets the value that the call already has
            self._apply(fault, site, ordinal, where)
        if fault.kind in STOPS:
            raise stop(fault, str(fault.at))
        if fault.kind == "repeat":
            for other in planted.faults(self.thread, site, ordinal + 1):
                if other.kind == "skip":  # leaves the repetition out, which uses its ordinal
                    self._apply(other, site, self._again(site), where)
                    return issues
        return after

    def _meet(self, site: str, ordinal: int, where: str, late: bool = True) -> int:
        planted = self._injections
        self._insert(site, ordinal, where)
        planted.come(self.thread, site, ordinal)
        self._send(site, ordinal, where)
        delay = planted.delay_ns(self.thread, site, ordinal) if late else 0
        if delay:
            self._inject("delay", site, ordinal, where, delay)
        for fault in planted.faults(self.thread, site, ordinal):
            if fault.kind in STOPS:
                self._apply(fault, site, ordinal, where)
                raise stop(fault, f"{site}[{ordinal}]")
        return delay

    def _insert(self, site: str, ordinal: int, where: str) -> None:
        """Makes the calls that faults insert before this op."""
        for fault in self._injections.faults(self.thread, site, ordinal):
            if fault.kind == "insert":
                self._apply(fault, site, ordinal, where)
                own = self._sites.get(fault.change["site"]) or self._first(fault.change["site"])
                step, count, sink = self.step, own.count, self._sink
                self.inserted += 1
                self.step, own.count = fault.change.get("step", step), -OPS_OF_A_CALL * self.inserted
                self._sink = partial(_placed, sink, where)
                try:
                    self._injections.begun.append(self._injections.make(fault))
                finally:
                    self.step, own.count, self._sink = step, count, sink
                    self.site, self.ordinal = site, ordinal

    def _send(self, site: str | None, ordinal: int | None, where: str) -> None:
        for number, message in self._injections.messages(self.thread, site, ordinal):
            change = ("to", message.to), ("mailbox", message.mailbox), ("content", message.content)
            self._inject("message", site or "start", ordinal or 0, where, change=change)
            self._injections.post(number, message)

    def _apply(self, fault: Fault, site: str, ordinal: int, where: str) -> None:
        self._inject(fault.kind, site, ordinal, where, 0, fault.at, tuple(fault.change.items()))

    def _inject(
        self,
        what: str,
        site: str,
        ordinal: int,
        where: str,
        ns: int = 0,
        at: At = NOWHERE,
        change: tuple[tuple[str, Any], ...] = (),
    ) -> None:
        """Writes the record of an applied fault or delay. `at`: the address that the scenario used."""
        fields = what, ns, change, at.communicator, at.seq
        self._sink(("injected", self.step, self.thread, site, ordinal, where) + fields)  # noqa: RUF005


def _placed(sink: Callable[[RawRecord], None], where: str, raw: RawRecord) -> None:
    """Writes the record of an inserted call, at the place of the op before which it comes."""
    sink((*raw[:WHERE], where, *raw[WHERE + 1 :]))
