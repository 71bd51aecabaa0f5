"""A rank's journal, and the gate through which all its ops go. Shared by every backend.

`Journal` does for each op what must mean the same everywhere: it gives the op its address, writes its record, and
applies the faults and delays of the scenario that name the address. A backend calls one method of it per op and
then does what the answer says:

    for issue in journal.collective("dp_cpu", Issue("all_reduce", 8, "int32"), None, "dp.agree"):
        ...                                            # zero times: skipped; twice: repeated

Rules, as on real hardware: a skipped collective uses an ordinal of its site but no sequence number, so the rank's
next call pairs with its peers' skipped one. A skipped host collective returns its own input, a skipped device
collective leaves the buffer.

`sink` takes the records one by one: a list's `append` in the simulation; a file in a worker process, written
through at once, so that the parent can read how far a rank came while the rank is stuck in a call that never
returns.
"""

from __future__ import annotations

import traceback
from collections import defaultdict
from collections.abc import Callable
from sys import _getframe
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from dpsim.backend.call_site import _PLACES, Site, _place, _where, is_own_code
from dpsim.ops import ROOTED, RawRecord, Refs
from dpsim.world import At, Delay, Fault, World

PROMPT = frozenset({"alloc", "decision", "probe", "used", "mark", "wait", "ask"})
"""Kinds of op that cannot be late: a delay there never happens."""


class RankDied(BaseException):
    """Raised at an op whose fault is `die`. A BaseException: no protocol may catch it."""


class Issue(NamedTuple):
    """A collective or transfer as it is really to be issued.

    `altered`: count or dtype are not those of the memory at hand. `group`: number of the coalesced group it belongs to.
    """

    op: str
    count: int  # type: ignore[assignment]  # the field's name; tuple.count is not wanted
    dtype: str
    root: int | None = None
    reduce: str | None = None
    sizes: tuple[int, ...] = ()
    peer: int | None = None
    group: int | None = None
    delay_ns: int = 0
    altered: bool = False


class Journal:
    """Addresses, records and injections of one rank's one host thread."""

    def __init__(self, rank: int, world: World, sink: Callable[[RawRecord], None]) -> None:
        self.rank = rank
        self.step = -1
        self.site, self.ordinal = "start", -1  # of the op that was issued last
        self._sink = sink
        self._sites: dict[str, Site] = {}
        self._seqs: defaultdict[Any, int] = defaultdict(int)  # by communicator; transfers by direction and peer too
        self._numbers: defaultdict[str, int] = defaultdict(int)
        self._faults: dict[tuple[str | None, int | None], Fault] = {}
        self._delays: dict[tuple[str | None, int | None], int] = {}
        for fault in world.faults:
            if fault.rank == rank:
                self._faults[_key(fault)] = fault
        for delay in world.delays:
            if delay.rank == rank:
                self._delays[_key(delay)] = self._delays.get(_key(delay), 0) + delay.ns
        self._injects = bool(self._faults or self._delays)

    # ---- ops

    def note(self, kind: str, site: str, fields: tuple[Any, ...]) -> int:
        """Journal an op: `fields` are those of its record after `where`. The answer is its delay in ns."""
        try:
            known = self._sites[site]
        except KeyError:
            known = self._sites[site] = Site(site)
        ordinal = self.ordinal = known.count
        known.count = ordinal + 1
        self.site = site
        frame = _getframe(2)
        place = known.places.get(frame.f_lasti)
        where = place[1] if place is not None and place[0] is frame.f_code else _where(known.places, frame)
        delay = self._meet(site, ordinal, where, kind not in PROMPT) if self._injects else 0
        self._sink((kind, self.step, site, ordinal, where) + fields)  # noqa: RUF005  # the star takes twice as long
        return delay

    def collective(
        self, communicator: str, issue: Issue, stream: str | None, site: str, reads: Refs = (), writes: Refs = ()
    ) -> list[Issue]:
        """Journal a collective and say what to issue."""
        seq = self._seqs[communicator]
        where, issues = self._admit(site, communicator, seq, issue)
        again = False
        for op, count, dtype, root, reduce, sizes, _, _, _, _ in issues:
            at = self._again(site) if again else self.ordinal
            form = op, count, dtype, root, reduce, sizes, reads, writes
            self._sink(("collective", self.step, site, at, where, stream, communicator, seq) + form)  # noqa: RUF005
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
        where, issues = self._admit(site, None, None, issue)
        again = False
        for op, count, dtype, _, _, _, peer, group, _, _ in issues:
            at = self._again(site) if again else self.ordinal
            line = communicator, op, peer
            seq = self._seqs[line]
            self._seqs[line] = seq + 1
            form = op, count, dtype, peer, group, reads, writes
            self._sink(("transfer", self.step, site, at, where, stream, communicator, seq) + form)  # noqa: RUF005
            again = True
        return issues

    def free(self, stream: str, site: str, ordinal: int, buffer: int) -> str:
        """A free has the address of its alloc. The answer is where it was called."""
        where = _where(_PLACES[site], _getframe(2))
        self._sink(("free", self.step, site, ordinal, where, stream, buffer))
        return where

    def learned(self, site: str, ordinal: int, result: Any) -> None:
        """An awaited op returned: an array, or what else was learned."""
        outcome = crc32(result.tobytes()) if isinstance(result, np.ndarray) else result
        self._sink(("learned", self.step, site, ordinal, "", outcome))

    def number(self, what: str) -> int:
        """The next number of a buffer, an event or a coalesced group of this rank."""
        number = self._numbers[what]
        self._numbers[what] = number + 1
        return number

    def start_delay(self) -> int:
        """How late the rank starts, in ns."""
        late = self._delays.get((None, None), 0)
        if late:
            self._inject(_late(late), "start", 0, "")
        return late

    # ---- how the program ended

    def finished(self) -> None:
        self._sink(("finished", self.step, "end", 0, ""))

    def raised(self, error: BaseException) -> None:
        """The program raised: the innermost frame outside this package's backends is where."""
        places: list[str] = []
        cause: BaseException | None = error
        while cause is not None:  # a kernel's own place is in the cause of what its backend raised
            walk = traceback.walk_tb(cause.__traceback__)
            places += [_place(*frame) for frame in walk if not is_own_code(frame[0])]
            cause = cause.__cause__
        where = places[-1] if places else ""
        message = " ".join(str(error).split())
        self._sink(("raised", self.step, type(error).__name__, 0, where, message[:500]))

    # ---- inside

    def _admit(self, site: str, communicator: str | None, seq: int | None, issue: Issue) -> tuple[str, list[Issue]]:
        """The place of a collective or transfer, and what becomes of it."""
        try:
            known = self._sites[site]
        except KeyError:
            known = self._sites[site] = Site(site)
        ordinal = self.ordinal = known.count
        known.count = ordinal + 1
        self.site = site
        frame = _getframe(4)  # the program called a method of a communicator, which journals by another one
        place = known.places.get(frame.f_lasti)
        where = place[1] if place is not None and place[0] is frame.f_code else _where(known.places, frame)
        if not self._injects:
            return where, [issue]
        delay = self._meet(site, ordinal, where)
        late = self._delays.get((communicator, seq), 0) if communicator is not None else 0
        if late:
            self._inject(f"{_late(late)} at {communicator} #{seq}", site, ordinal, where)
        if delay or late:
            issue = issue._replace(delay_ns=delay + late)
        fault = self._faults.get((site, ordinal))
        if fault is None and communicator is not None:
            fault = self._faults.get((communicator, seq))
        if fault is None:
            return where, [issue]
        issues = self._apply(fault, issue)
        if issues != [issue]:  # a change to what it is already changes nothing
            self._inject(f"{fault.describe()}{_by_seq(fault.at)}", site, ordinal, where)
        if fault.kind == "die":
            raise RankDied(str(fault.at))
        return where, issues

    def _meet(self, site: str, ordinal: int, where: str, late: bool = True) -> int:
        """The delay of an op in ns, where it can be late. Dies here if the scenario says so."""
        delay = self._delays.get((site, ordinal), 0) + self._delays.get((site, None), 0) if late else 0
        if delay:
            self._inject(_late(delay), site, ordinal, where)
        fault = self._faults.get((site, ordinal))
        if fault is not None and fault.kind == "die":
            self._inject("die", site, ordinal, where)
            raise RankDied(site)
        return delay

    def _again(self, site: str) -> int:
        """The ordinal of an op that is repeated."""
        known = self._sites[site]
        self.ordinal = known.count
        known.count += 1
        return self.ordinal

    def _apply(self, fault: Fault, issue: Issue) -> list[Issue]:
        if fault.kind == "skip":
            return []
        if fault.kind == "repeat":
            return [issue, issue._replace(delay_ns=0)]
        if fault.kind == "die":
            return []
        others = () if issue.peer is None else ("op", "root")  # which a transfer does not have
        changed = issue._replace(**{key: value for key, value in fault.change.items() if key not in others})
        if issue.peer is None:
            root = changed.root if changed.root is not None else self.rank
            changed = changed._replace(root=root if ROOTED[changed.op] else None)
        altered = (changed.count, changed.dtype) != (issue.count, issue.dtype)
        return [changed._replace(altered=altered)]

    def _inject(self, what: str, site: str, ordinal: int, where: str) -> None:
        self._sink(("injected", self.step, site, ordinal, where, what))


def _key(item: Fault | Delay) -> tuple[str | None, int | None]:
    at = item.at
    return (at.communicator, at.seq) if at.communicator is not None else (at.site, at.ordinal)


def _late(ns: int) -> str:
    """ "delay 3 ms"."""
    unit, name = next(
        (unit, name) for unit, name in ((10**9, "s"), (10**6, "ms"), (1000, "us"), (1, "ns")) if ns >= unit
    )
    return f"delay {ns / unit:g} {name}"


def _by_seq(at: At) -> str:
    """The second address of a collective, where the scenario used it."""
    return f" at {at}" if at.communicator is not None else ""
