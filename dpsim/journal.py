"""A rank's journal, and the gate through which all its ops go. Shared by every backend.

`Journal` does for each op what must mean the same everywhere: it gives the op its address, writes its record, and
applies the faults and delays of the scenario that name the address. A backend calls one method of it per op and
then does what the answer says:

    for issue in journal.collective("dp_cpu", "all_reduce", 8, "int32", None, None, "dp.agree"):
        ...                                            # zero times: skipped; twice: repeated

Rules, as on real hardware: a skipped collective uses an ordinal of its site but no sequence number, so the rank's
next call pairs with its peers' skipped one. A skipped host collective returns its own input, a skipped device
collective leaves the buffer.

`sink` takes the records one by one: a list's `append` in the simulation; a file in a worker process, written
through at once, so that the parent can read how far a rank came while the rank is stuck in a call that never
returns.
"""

from __future__ import annotations

import sys
import traceback
import zlib
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

from dpsim.interface import HostArray
from dpsim.ops import ROOTED, RawRecord
from dpsim.world import At, Delay, Fault, World


class RankDied(BaseException):
    """Raised at an op whose fault is `die`. A BaseException: no protocol may catch it."""


class Issue(NamedTuple):
    """A collective as it is really to be issued. `altered`: count or dtype are not those of the buffer at hand."""

    op: str
    count: int  # type: ignore[assignment]  # the field's name; tuple.count is not wanted
    dtype: str
    root: int | None
    delay_ns: int
    altered: bool


class Journal:
    """Addresses, records and injections of one rank's one host thread."""

    def __init__(self, rank: int, world: World, sink: Callable[[RawRecord], None]) -> None:
        self.rank = rank
        self.step = -1
        self._sink = sink
        self._ordinals: dict[str, int] = {}
        self._seqs: dict[str, int] = {}
        self._places: dict[tuple[Any, int], str] = {}
        self._faults: dict[tuple[str | None, int | None], Fault] = {}
        self._delays: dict[tuple[str | None, int | None], int] = {}
        for fault in world.faults:
            if fault.rank == rank:
                self._faults[_key(fault)] = fault
        for delay in world.delays:
            if delay.rank == rank:
                self._delays[_key(delay)] = self._delays.get(_key(delay), 0) + delay.ns

    # ---- one method per op

    def collective(
        self, communicator: str, op: str, count: int, dtype: str, root: int | None, stream: str | None, site: str
    ) -> list[Issue]:
        """Journal a collective and say what to issue."""
        ordinal, where, delay = self._enter(site)
        seq = self._seqs.get(communicator, 0)
        issue = Issue(op, count, dtype, root, delay, False)
        issues = [issue]
        if self._delays:
            late = self._delays.get((communicator, seq), 0)
            if late:
                self._inject(f"{_late(late)} at {communicator} #{seq}", site, ordinal, where)
                issues = [issue._replace(delay_ns=delay + late)]
        if self._faults:
            fault = self._faults.get((site, ordinal)) or self._faults.get((communicator, seq))
            if fault is not None:
                whole = issues[0]
                issues = self._apply(fault, whole)
                if issues != [whole]:  # a change to what it is already changes nothing
                    self._inject(f"{fault.describe()}{_by_seq(fault.at)}", site, ordinal, where)
                if fault.kind == "die":
                    raise RankDied(str(fault.at))
        for index, (op, count, dtype, root, _, _) in enumerate(issues):
            if index:
                ordinal = self._ordinal(site)
            self._sink(
                (
                    "collective",
                    self.step,
                    site,
                    ordinal,
                    where,
                    stream,
                    communicator,
                    seq + index,
                    op,
                    count,
                    dtype,
                    root,
                )
            )
        self._seqs[communicator] = seq + len(issues)
        return issues

    def launch(self, stream: str, site: str, reads: tuple[int, ...], writes: tuple[int, ...]) -> int:
        """Journal a kernel; the answer is the delay in ns to put before it."""
        ordinal, where, delay = self._enter(site)
        self._sink(("launch", self.step, site, ordinal, where, stream, reads, writes))
        return delay

    def alloc(self, stream: str, site: str, count: int, dtype: str) -> int:
        """Journal an allocation; the answer is its ordinal, by which `free` names it."""
        ordinal, where, _ = self._enter(site, late=False)
        self._sink(("alloc", self.step, site, ordinal, where, stream, count, dtype))
        return ordinal

    def free(self, stream: str, site: str, ordinal: int) -> None:
        where = self._where(sys._getframe(2))
        self._sink(("free", self.step, site, ordinal, where, stream))

    def read(self, stream: str, site: str, count: int, dtype: str) -> tuple[int, int]:
        """Journal a read; the answer is (ordinal for `learned`, delay in ns)."""
        ordinal, where, delay = self._enter(site)
        self._sink(("read", self.step, site, ordinal, where, stream, count, dtype))
        return ordinal, delay

    def last_ordinal(self, site: str) -> int:
        """The ordinal of the latest op at that site."""
        return self._ordinals[site] - 1

    def learned(self, site: str, ordinal: int, result: HostArray) -> None:
        """An awaited op returned."""
        self._sink(("learned", self.step, site, ordinal, "", zlib.crc32(result.tobytes())))

    def decide(self, label: str, communicator: str, value: Any) -> None:
        ordinal, where, _ = self._enter(label, late=False)
        self._sink(("decision", self.step, label, ordinal, where, communicator, value))

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
            places += [_place(*frame) for frame in walk if not _is_backend(frame[0])]
            cause = cause.__cause__
        where = places[-1] if places else ""
        message = " ".join(str(error).split())
        self._sink(("raised", self.step, type(error).__name__, 0, where, message[:500]))

    # ---- inside

    def _enter(self, site: str, late: bool = True) -> tuple[int, str, int]:
        """Address and place of an op, and its delay in ns, where it can be late. Dies here if the scenario says so."""
        ordinal = self._ordinal(site)
        where = self._where(sys._getframe(3))
        delay = 0
        if self._delays and late:
            delay = self._delays.get((site, ordinal), 0) + self._delays.get((site, None), 0)
            if delay:
                self._inject(_late(delay), site, ordinal, where)
        if self._faults:
            fault = self._faults.get((site, ordinal))
            if fault is not None and fault.kind == "die":
                self._inject("die", site, ordinal, where)
                raise RankDied(site)
        return ordinal, where, delay

    def _ordinal(self, site: str) -> int:
        ordinal = self._ordinals.get(site, 0)
        self._ordinals[site] = ordinal + 1
        return ordinal

    def _apply(self, fault: Fault, issue: Issue) -> list[Issue]:
        if fault.kind == "skip":
            return []
        if fault.kind == "repeat":
            return [issue, issue._replace(delay_ns=0)]
        if fault.kind == "die":
            return []
        changed = issue._replace(**fault.change)
        if ROOTED[changed.op] and changed.root is None:
            changed = changed._replace(root=self.rank)
        elif not ROOTED[changed.op]:
            changed = changed._replace(root=None)
        altered = (changed.count, changed.dtype) != (issue.count, issue.dtype)
        return [changed._replace(altered=altered)]

    def _inject(self, what: str, site: str, ordinal: int, where: str) -> None:
        self._sink(("injected", self.step, site, ordinal, where, what))

    def _where(self, frame: FrameType) -> str:
        """ "dpsim/protocol/batch.py:88" for a frame: the module's name is a path that is the same in a tree and in
        a wheel.
        """
        key = (frame.f_code, frame.f_lasti)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = _place(frame, frame.f_lineno)
        return place


def _key(item: Fault | Delay) -> tuple[str | None, int | None]:
    at = item.at
    return (at.communicator, at.seq) if at.communicator is not None else (at.site, at.ordinal)


def _place(frame: FrameType, line: int) -> str:
    module = frame.f_globals.get("__name__", "?")
    if module == "__main__":
        module = frame.f_code.co_filename.rsplit("/", 1)[-1].removesuffix(".py")
    return f"{module.replace('.', '/')}.py:{line}"


def _late(ns: int) -> str:
    """ "delay 3 ms"."""
    unit, name = next(
        (unit, name) for unit, name in ((10**9, "s"), (10**6, "ms"), (1000, "us"), (1, "ns")) if ns >= unit
    )
    return f"delay {ns / unit:g} {name}"


def _by_seq(at: At) -> str:
    """The second address of a collective, where the scenario used it."""
    return f" at {at}" if at.communicator is not None else ""


def _is_backend(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    return module.startswith(("dpsim.sim", "dpsim.journal", "real", "simpy", "torch"))
