"""A rank's journal: the list of its records, and the object through which all its ops pass. All backends share it.

`Journal` gives an op its address, writes its record, and applies the faults and delays of the scenario that name the
address. A backend calls one of its methods per op, and then carries out what the method returns:

    for issue in journal.collective("dp_cpu", Issue("all_reduce", 8, "int32"), None, "dp.agree"):
        ...                                            # zero times: skipped; twice: repeated

A rank has one journal, in the order in which its host threads issue ops. A `RankJournal` contains what the threads
share: records, sequence numbers of communicators, numbers of buffers and events, planted faults. A `Journal` contains
what belongs to one thread: its step, and how often it reached each site.

The rules for faults are those of real hardware. A skipped collective uses an ordinal but no sequence number. So the
rank's next call matches the skipped call of its peers. On a host it returns its input, on a device it leaves the
buffer. The journal calls `look` at every 256th visit of a site and every 256th new site, to end endless loops.

The journal passes records one by one to `sink`. In a worker process this is a file. From it, the parent process reads
how far a blocked rank has run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from sys import _getframe
from types import FrameType
from typing import Any
from zlib import crc32

from numpy import ndarray

from dpsim.backend.journal.call_site import Site, place_of, raised_at
from dpsim.backend.journal.fault_injector import Lawful
from dpsim.backend.journal.graph_records import GraphRecords
from dpsim.backend.journal.injection import Injections
from dpsim.backend.journal.issue import Issue
from dpsim.backend.journal.misuse import said
from dpsim.contract.interface import Aborted, Received
from dpsim.contract.kinds import IN_TIME
from dpsim.contract.ops import BROKEN_OFF, MAIN, RawRecord, Refs
from dpsim.contract.undefined import Undefined
from dpsim.contract.world import World

REST = "", "", ""


class RankJournal:
    """What the host threads of a rank share: the sink of records, sequence numbers, and planted faults."""

    def __init__(self, rank: int, world: World, sink: Callable[[RawRecord], None]) -> None:
        self.rank = rank
        self.world = world
        self.sink = sink
        self.look: Callable[[], None] = lambda: None
        self.seqs: defaultdict[Any, int] = defaultdict(int)  # by communicator; for transfers also by direction and peer
        self.numbers: defaultdict[str, Iterator[int]] = defaultdict(count)
        self.injections = Injections(rank, world)
        self.threads: dict[str, Journal] = {}
        self.front: Journal | None = None
        """With several threads: the journal of the calling thread. The rank's objects refer to it."""
        self.capture: Lawful | None = None  # the present capture of the rank
        self.undefined: list[Undefined] = []
        """The NaNs, and zeros of another sign, that this rank contributed to reductions by max or min."""
        self.aborts = False
        """Whether the program may abort communicators."""
        self.issuing: AbstractContextManager[object] = nullcontext()
        """A lock for calls that need several steps to issue, on backends whose threads run at the same time."""

    def thread(self, name: str = MAIN) -> Journal:
        """Returns the journal of the host thread with that name."""
        journal = self.threads.get(name)
        if journal is None:  # a thread that reuses a name continues its counts
            journal = self.threads[name] = Journal(self, name)
        return journal

    def capturing(self, capture: Lawful | None) -> None:
        """A capture begins, or ends (None). Meanwhile all threads check each call."""
        self.capture = capture
        for journal in self.threads.values():
            journal.looks = capture is not None or bool(self.injections) or journal.turn is not None


class Journal(GraphRecords):
    """Addresses, records and faults of one host thread of a rank."""

    def __init__(self, shared: RankJournal, thread: str) -> None:
        self.rank = shared.rank
        self.thread = thread
        self.step = -1
        self.site, self.ordinal = "start", -1  # site and ordinal of the last op
        self._sites: dict[str, Site] = {}
        self._sink = shared.sink
        self.shared = shared
        self.seqs = shared.seqs
        self._numbers = shared.numbers
        self.events = shared.numbers["event"]  # a separate counter for speed, since events are frequent
        self._injections = shared.injections
        self.looks = bool(shared.injections)
        """Whether each op needs a check first: for faults, a capture, or turns of threads."""
        self.turn: Callable[[str, int], None] | None = None
        """With several threads: called with site and ordinal before each call. It may block there."""
        self._has_turn = ""  # the site for which the thread has already had its turn
        self.about = REST
        """The object of the next call (kind, name), and what the call does to it."""

    def on(self, kind: str, name: str) -> None:
        """Notes the object of the next call, for the order of threads, unless the call has noted one."""
        if name and self.turn is not None and self.about is REST:
            self.about = kind, name, "use"

    def come(self, site: str) -> None:
        """The thread reaches a call that acts before its record is written."""
        if self.turn is not None:
            self.turn(site, self.visits(site))
            self._has_turn = site

    def _take_turn(self, site: str, communicator: str = "") -> None:
        self.on("communicator", communicator)
        turn_site, self._has_turn = self._has_turn, ""  # a refused call has no record
        if turn_site != site and self.turn is not None:
            self.turn(site, self.ordinal)
        self.about = REST

    @property
    def capture(self) -> Lawful | None:
        return self.shared.capture

    @property
    def injects(self) -> bool:
        return bool(self._injections)

    # ---- ops

    def note(self, kind: str, site: str, fields: tuple[Any, ...]) -> int:
        """Records an op; `fields` are those of its record after `where`. Returns its delay in ns."""
        # The body of `_arrive`, copied: most ops pass here, and a call would cost a timed run a fortieth of its time.
        known = self._sites.get(site) or self._first(site)
        ordinal = self.ordinal = known.count
        known.count = ordinal + 1
        self.site = site
        if ordinal & 255 == 255:
            self.shared.look()
        frame = _getframe(2)  # the frame of the program, which called a method of the contract
        try:
            code, where = known.places[frame.f_lasti]
            if code is not frame.f_code:
                where = place_of(site, frame, self)
        except KeyError:
            where = place_of(site, frame, self)
        delay = self._look(kind, site, where) if self.looks else 0
        self._sink((kind, self.step, self.thread, site, ordinal, where) + fields)  # noqa: RUF005  # the star takes twice as long
        return delay

    def note_at(self, kind: str, site: str, fields: tuple[Any, ...], frame: FrameType) -> None:
        """Records an op that the program issued in this frame, of a kind that cannot be late."""
        where = self._arrive(site, frame)
        if self.looks:
            self._look(kind, site, where)
        self._sink((kind, self.step, self.thread, site, self.ordinal, where) + fields)  # noqa: RUF005

    def collective(
        self, communicator: str, issue: Issue, stream: str | None, site: str, reads: Refs = (), writes: Refs = ()
    ) -> list[Issue]:
        """Records a collective, and returns the issues to carry out."""
        where = self._arrive(site, _getframe(3))  # the program's frame is two calls above
        if self.turn is not None:
            self._take_turn(site, communicator)
        issues = self._admit(site, communicator, where, issue, stream) if self.looks else [issue]
        seq = self.seqs[communicator]
        again = False
        for out in issues:
            at = self._again(site) if again else self.ordinal
            op, elements, dtype, root, reduce, sizes = out.call
            form = stream, communicator, seq, op, elements, dtype, root, reduce, sizes, reads, writes
            self._sink(("collective", self.step, self.thread, site, at, where) + form)  # noqa: RUF005
            again = True
            seq += 1
        self.seqs[communicator] = seq
        return issues

    def transfer(
        self, communicator: str, issue: Issue, stream: str | None, site: str, reads: Refs = (), writes: Refs = ()
    ) -> list[Issue]:
        """Records a send or receive. Transfers have no (communicator, seq) address for faults."""
        where = self._arrive(site, _getframe(3))
        if self.turn is not None:
            self._take_turn(site, communicator)
        issues = self._admit(site, None, where, issue, stream) if self.looks else [issue]
        again = False
        for out in issues:
            at = self._again(site) if again else self.ordinal
            line = communicator, out.op, out.peer
            seq = self.seqs[line]
            self.seqs[line] = seq + 1
            form = stream, communicator, seq, out.op, out.count, out.dtype, out.peer, out.group, reads, writes
            self._sink(("transfer", self.step, self.thread, site, at, where) + form)  # noqa: RUF005
            again = True
        return issues

    def free(self, stream: str, site: str, ordinal: int, buffer: int) -> str:
        """Records a free, with the address of its alloc, after its thread's turn. Returns the call's place."""
        where = place_of(site, _getframe(2), self)
        self._sink(("free", self.step, self.thread, site, ordinal, where, stream, buffer))
        return where

    def brings_undefined(self, communicator: str, site: str, ordinal: int, zero: bool = False) -> None:
        """Notes that this rank contributed a NaN, or a `zero` of another sign, to a reduction by max or min."""
        self.shared.undefined.append(Undefined(self.rank, communicator, site, ordinal, zero))

    def learned(self, site: str, ordinal: int, result: Any) -> None:
        """Records the outcome of an awaited call: an array, or another value."""
        outcome = crc32(result.tobytes()) if isinstance(result, ndarray) else result
        if type(outcome) is Received:
            outcome = outcome.source, crc32(outcome.array.tobytes())
        self._sink(("learned", self.step, self.thread, site, ordinal, "", outcome))

    def failed(self, site: str, ordinal: int, error: RuntimeError) -> None:
        """Records that an awaited call raised."""
        if isinstance(error, Aborted):
            self.learned(site, ordinal, BROKEN_OFF)

    def number(self, what: str) -> int:
        """Returns the next number of a buffer, an event or a coalesced group of this rank."""
        return next(self._numbers[what])

    # ---- how the program ended

    def finished(self) -> None:
        self._insert("end", 0, "")
        self._sink(("finished", self.step, self.thread, "end", 0, ""))

    def raised(self, error: BaseException, packages: Collection[str] = ()) -> None:
        """Records that the program raised, at the innermost place in its own code. `packages`: those of protocols."""
        where = raised_at(error, packages)
        self._sink(("raised", self.step, self.thread, type(error).__name__, 0, where, said(error)))

    def ended(self, error: BaseException | None, packages: Collection[str] = ()) -> str:
        """Records that a thread other than main ended or raised. Returns its exception as text."""
        if error is None:
            self._insert("end", self.visits("end"), "")
        self.about = "thread", self.thread, "end"
        self.come("end")
        self._has_turn, self.about = "", REST
        message = "" if error is None else f"{type(error).__name__}: {said(error)}"
        where = "" if error is None else raised_at(error, packages)
        known = self._sites.get("end") or self._first("end")
        self._sink(("ended", self.step, self.thread, "end", known.count, where, message))
        known.count += 1
        return message

    # ---- inside

    def _arrive(self, site: str, frame: FrameType) -> str:
        known = self._sites.get(site) or self._first(site)
        self.site, self.ordinal = site, known.count
        known.count += 1
        if known.count & 255 == 0:
            self.shared.look()
        try:
            code, where = known.places[frame.f_lasti]
        except KeyError:
            return place_of(site, frame, self)
        return where if code is frame.f_code else place_of(site, frame, self)

    def _first(self, site: str) -> Site:
        known = self._sites[site] = Site(site)
        if len(self._sites) & 255 == 0:
            self.shared.look()
        return known

    def _look(self, kind: str, site: str, where: str) -> int:
        if self.turn is not None:
            self._take_turn(site)
        if self.shared.capture is not None:
            self.shared.capture.check(self, kind, site)
        return self._meet(site, self.ordinal, where, kind not in IN_TIME) if self._injections else 0
