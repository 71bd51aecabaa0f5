"""A rank's journal, and the gate through which all its ops go. Shared by every backend.

`Journal` does for each op what must mean the same everywhere: it gives the op its address, writes its record, and
applies the faults and delays of the scenario that name the address. A backend calls one method of it per op and
then does what the answer says:

    for issue in journal.collective("dp_cpu", Issue("all_reduce", 8, "int32"), None, "dp.agree"):
        ...                                            # zero times: skipped; twice: repeated

A rank has one journal, in the order in which its host threads issue ops, and each thread has its own view of it. A
`RankJournal` is what the threads share: the records, the sequence numbers of communicators, the numbers of buffers and
events, the injections. A `Journal` is what one thread owns: its step, and how often it came to each site.

Rules, as on real hardware: a skipped collective uses an ordinal of its site but no sequence number, so the rank's
next call pairs with its peers' skipped one. A skipped host collective returns its own input, a skipped device
collective leaves the buffer.

`look` is called at every 256th visit of a site, and at every 256th new site: a backend that ends what has no end by
itself does so there.

`sink` takes the records one by one: a list's `append` in the simulation; a file in a worker process, written
through at once, so that the parent can read how far a rank came while the rank is stuck in a call that never
returns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from sys import _getframe
from types import FrameType
from typing import Any
from zlib import crc32

import numpy as np

from dpsim.backend.call_site import Site, place_of, raised_at
from dpsim.backend.injection import IN_TIME, Injections, RankDied
from dpsim.backend.issue import Issue
from dpsim.backend.misuse import said
from dpsim.ops import MAIN, ORDINAL, SITE, STEP, RawRecord, Refs
from dpsim.world import At, Fault, World

NOWHERE = At()


class RankJournal:
    """What the host threads of a rank share: where their records go, what is numbered, what is injected."""

    def __init__(self, rank: int, world: World, sink: Callable[[RawRecord], None]) -> None:
        self.rank = rank
        self.sink = sink
        self.look: Callable[[], None] = lambda: None
        self.seqs: defaultdict[Any, int] = defaultdict(int)  # by communicator; transfers by direction and peer too
        self.numbers: defaultdict[str, int] = defaultdict(int)
        self.injections = Injections(rank, world)

    def thread(self, name: str = MAIN) -> Journal:
        """The journal as a host thread of that name writes it."""
        return Journal(self, name)


class Journal:
    """Addresses, records and injections of one host thread of a rank."""

    def __init__(self, shared: RankJournal, thread: str) -> None:
        self.rank = shared.rank
        self.thread = thread
        self.step = -1
        self.site, self.ordinal = "start", -1  # of the op that was issued last
        self._sites: dict[str, Site] = {}
        self._sink = shared.sink
        self._shared = shared
        self._seqs = shared.seqs
        self._numbers = shared.numbers
        self._injections = shared.injections
        self._injects = bool(shared.injections)

    # ---- ops

    def note(self, kind: str, site: str, fields: tuple[Any, ...]) -> int:
        """Journal an op: `fields` are those of its record after `where`. The answer is its delay in ns."""
        # `_arrive`, written out: most ops come here, and the call would cost a timed run a fortieth of its time.
        known = self._sites.get(site) or self._first(site)
        ordinal = self.ordinal = known.count
        known.count = ordinal + 1
        self.site = site
        if ordinal & 255 == 255:
            self._shared.look()
        frame = _getframe(2)  # the program called a method of the contract
        place = known.places.get(frame.f_lasti)
        where = place[1] if place is not None and place[0] is frame.f_code else place_of(site, frame)
        delay = self._meet(site, ordinal, where, kind not in IN_TIME) if self._injects else 0
        self._sink((kind, self.step, self.thread, site, ordinal, where) + fields)  # noqa: RUF005  # the star takes twice as long
        return delay

    def collective(
        self, communicator: str, issue: Issue, stream: str | None, site: str, reads: Refs = (), writes: Refs = ()
    ) -> list[Issue]:
        """Journal a collective and say what to issue."""
        seq = self._seqs[communicator]
        where = self._arrive(site, _getframe(3))  # the program called a method, which journals by another one
        issues = self._admit(site, communicator, seq, where, issue) if self._injects else [issue]
        again = False
        for op, count, dtype, root, reduce, sizes, _, _, _, _ in issues:
            at = self._again(site) if again else self.ordinal
            form = stream, communicator, seq, op, count, dtype, root, reduce, sizes, reads, writes
            self._sink(("collective", self.step, self.thread, site, at, where) + form)  # noqa: RUF005
            again = True
            seq += 1
        self._seqs[communicator] = seq
        return issues

    def transfer(
        self, communicator: str, issue: Issue, stream: str | None, site: str, reads: Refs = (), writes: Refs = ()
    ) -> list[Issue]:
        """Journal a send or a receive and say what to issue. Transfers have no (communicator, seq) address for
        faults.
        """
        where = self._arrive(site, _getframe(3))
        issues = self._admit(site, None, 0, where, issue) if self._injects else [issue]
        again = False
        for op, count, dtype, _, _, _, peer, group, _, _ in issues:
            at = self._again(site) if again else self.ordinal
            line = communicator, op, peer
            seq = self._seqs[line]
            self._seqs[line] = seq + 1
            form = stream, communicator, seq, op, count, dtype, peer, group, reads, writes
            self._sink(("transfer", self.step, self.thread, site, at, where) + form)  # noqa: RUF005
            again = True
        return issues

    def free(self, stream: str, site: str, ordinal: int, buffer: int) -> str:
        """A free has the address of its alloc. The answer is where it was called."""
        where = place_of(site, _getframe(2))
        self._sink(("free", self.step, self.thread, site, ordinal, where, stream, buffer))
        return where

    def learned(self, site: str, ordinal: int, result: Any) -> None:
        """An awaited op returned: an array, or what else was learned."""
        outcome = crc32(result.tobytes()) if isinstance(result, np.ndarray) else result
        self._sink(("learned", self.step, self.thread, site, ordinal, "", outcome))

    def number(self, what: str) -> int:
        """The next number of a buffer, an event or a coalesced group of this rank."""
        number = self._numbers[what]
        self._numbers[what] = number + 1
        return number

    def start_delay(self) -> int:
        """How late the thread starts, in ns."""
        late = self._injections.start_ns(self.thread)
        if late:
            self._inject("delay", "start", 0, "", late)
        return late

    # ---- how the program ended

    def finished(self) -> None:
        self._sink(("finished", self.step, self.thread, "end", 0, ""))

    def raised(self, error: BaseException, packages: Collection[str] = ()) -> None:
        """The program raised: the innermost place of its own is where. `packages`: those of protocols."""
        where = raised_at(error, packages)
        self._sink(("raised", self.step, self.thread, type(error).__name__, 0, where, said(error)[:500]))

    def killed(self, last: RawRecord | None) -> None:
        """The rank died after that record, its last, and no op of its own did it."""
        step, site, ordinal = (-1, "start", 0) if last is None else (last[STEP], last[SITE], last[ORDINAL])
        fields = "kill", 0, (), None, None
        self._sink(("injected", step, self.thread, site, ordinal, "") + fields)  # noqa: RUF005

    # ---- inside

    def _arrive(self, site: str, frame: FrameType) -> str:
        """The thread comes to a site once more, by a call in this frame. The answer is the call's place."""
        known = self._sites.get(site) or self._first(site)
        self.site, self.ordinal = site, known.count
        known.count += 1
        if known.count & 255 == 0:
            self._shared.look()
        place = known.places.get(frame.f_lasti)
        return place[1] if place is not None and place[0] is frame.f_code else place_of(site, frame)

    def _first(self, site: str) -> Site:
        """The thread comes to a site for the first time. Raises ValueError for a site that is no word."""
        known = self._sites[site] = Site(site)
        if len(self._sites) & 255 == 0:
            self._shared.look()
        return known

    def _again(self, site: str) -> int:
        """The ordinal of an op that is repeated."""
        known = self._sites[site]
        self.ordinal = known.count
        known.count += 1
        return self.ordinal

    def _admit(self, site: str, communicator: str | None, seq: int, where: str, issue: Issue) -> list[Issue]:
        """What the scenario makes of a collective or transfer."""
        ordinal, planted = self.ordinal, self._injections
        delay = self._meet(site, ordinal, where)
        fault = planted.fault(self.thread, site, ordinal)
        if communicator is not None:
            planted.come(None, communicator, seq)
            late = planted.collective_delay_ns(communicator, seq)
            if late:
                self._inject("delay", site, ordinal, where, late, At(communicator=communicator, seq=seq))
                delay += late
            fault = fault or planted.collective_fault(communicator, seq)
        if delay:
            issue = issue._replace(delay_ns=delay)
        if fault is None:
            return [issue]
        issues = planted.apply(fault, issue)
        if issues != [issue]:  # a change to what it is already changes nothing
            self._apply(fault, site, ordinal, where)
        if fault.kind == "die":
            raise RankDied(str(fault.at))
        return issues

    def _meet(self, site: str, ordinal: int, where: str, late: bool = True) -> int:
        """The delay of an op in ns, where it can be late. Dies here if the scenario says so."""
        planted = self._injections
        planted.come(self.thread, site, ordinal)
        delay = planted.delay_ns(self.thread, site, ordinal) if late else 0
        if delay:
            self._inject("delay", site, ordinal, where, delay)
        fault = planted.fault(self.thread, site, ordinal)
        if fault is not None and fault.kind == "die":
            self._apply(fault, site, ordinal, where)
            raise RankDied(site)
        return delay

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
        """Write down what was applied. `at`: the address by which the scenario named the op."""
        fields = what, ns, change, at.communicator, at.seq
        self._sink(("injected", self.step, self.thread, site, ordinal, where) + fields)  # noqa: RUF005
