"""The recorder of a process: one record for each call of torch.distributed.

    recorder = Recorder(folder, slots=65536)
    number = recorder.record(group, op, measure(args, more), frame)     # a call of a process group begins
    recorder.waits(number)                                              # the program waits for its Work
    recorder.returned(number)                                           # the call, or the wait, has returned

The recorder creates its file together with the default group, when the process knows its rank, or at the first call. A
forked child gets another file. If the recorder fails on a call, the job continues, and the header counts the call as
missed. If the folder accepts no file, the recorder prints one line on stderr, and the job continues without a
recording.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from dpsim.contract import recording as layout
from dpsim.contract.machine import begun_at, machine
from real.record.measures import Moved
from real.record.places import MOST, key_of, lines_of
from real.record.ring import RecordingFile
from real.record.watching import watch


class NotRecorded(Exception):
    """This process has no recording."""


class RecordedGroup:
    """A process group: its number in the table, and the number of its last collective."""

    __slots__ = ("calls", "group", "number", "others", "step")

    def __init__(self, group: Any, number: int, library: str) -> None:
        self.group = weakref.ref(group)
        self.number = number
        self.calls = 0
        self.others = 0  # transfers that the library counts among its collectives
        self.step = int(library == "gloo")  # gloo has one counter for both


class Recorder:
    """The recorder of a process, described in the module."""

    def __init__(self, folder: Path, slots: int = layout.SLOTS) -> None:
        self.folder, self.slots = folder, slots
        self.file: RecordingFile | None = None
        self.count: Any = None  # the library's own counter, an unbound method of torch's process group
        self.missed = 0
        self.refused = False  # the folder takes no file, so this process is not recorded
        self.groups: dict[int, RecordedGroup] = {}
        self._places: dict[tuple[int, ...], int] = {}
        self._words: dict[Any, int] = {None: 0}
        self._reductions: dict[int, int] = {}
        self._threads: dict[int, int] = {}
        self._transfers: dict[tuple[int, int, int], int] = {}
        self._opening = threading.Lock()

    def record(self, group: Any, op: int, moved: Moved, frame: FrameType | None) -> int:
        """A call of a process group begins. Returns the number of its record. `op`: in OPS; `frame`: the caller's
        frame.
        """
        input_size, output_size, dtype, reduction, peer = moved
        file = self.file or self._open()
        known = self.groups.get(id(group)) or self._met(group)
        if op >= FIRST_TRANSFER:
            line = known.number, op, peer
            seq = self._transfers[line] = self._transfers.get(line, 0) + 1
            known.others += known.step
        else:
            try:
                counted = self.count(group) - known.others
            except RuntimeError:  # the library does not count
                counted = 0
            seq = known.calls = (counted if counted > known.calls else known.calls) + 1
        key = key_of(frame)
        place = self._places.get(key) or self._place(key, frame)
        thread = self._threads.get(threading.get_ident()) or self._thread()
        words = self._words
        kind, how = words.get(dtype) or self._word(dtype), 0
        if reduction is not None:
            how = self._reductions.get(hash(reduction)) or self._reduction(reduction)
        return file.put(layout.CALL, op, thread, kind, how, known.number, place, seq, peer, input_size, output_size)

    def returned(self, number: int) -> None:
        """The call of a record has returned on its host."""
        file = self.file
        if number and file is not None:
            file.end(number)

    def failed(self, number: int) -> None:
        """The call of a record, or the wait for its Work, has raised."""
        if number and self.file is not None:
            self.file.failed(number)

    def waits(self, number: int) -> None:
        """The program begins to wait for the Work of a record."""
        file = self.file
        if number and file is not None:
            file.waits(number)

    def step(self, step: int) -> None:
        """The program has begun a step (`dpsim.mark`)."""
        file = self.file or self._open()
        file.put(layout.STEP, 0, self._thread(), 0, 0, 0, 0, 0, 0, int(step) % (1 << 64), 0)

    def decided(self, label: str, value: Any, group: Any, frame: FrameType | None) -> None:
        """The program has decided a value (`dpsim.mark`)."""
        file = self.file or self._open()
        number = 0 if group is None else (self.groups.get(id(group)) or self._met(group)).number
        key = key_of(frame)
        place = self._places.get(key) or self._place(key, frame)
        text_number = file.text(repr(value))
        file.put(layout.DECISION, 0, self._thread(), 0, 0, number, place, 0, file.text(label), text_number, 0)

    def start_again(self) -> None:
        """This is a forked child: it starts a separate recording."""
        self.file, self.missed = None, 0
        self._opening = threading.Lock()
        self.groups.clear()
        self._places.clear()
        self._words = {None: 0}
        self._reductions.clear()
        self._threads.clear()
        self._transfers.clear()

    # ---- the first time

    def begins(self, rank: int | None) -> None:
        """The program joins its default group, as this rank."""
        if self.file is None and rank is not None:
            self._open(rank)

    def meets(self, group: Any, ranks: Sequence[int]) -> None:
        """The program has created a group of these ranks, or of all. This process may be no member."""
        if not hasattr(group, "group_name"):
            return
        if self.file is None:
            self._open(group.rank())
        if id(group) not in self.groups:
            self._met(group, ranks or range(group.size()))

    def monitored(self, group: Any) -> None:
        """The program makes a monitored barrier: transfers between each member and the first one, in both
        directions.
        """
        known = self.groups.get(id(group)) or self._met(group)
        known.others += known.step * (2 * (group.size() - 1 if group.rank() == 0 else 1) - 1)

    def _open(self, rank: int | None = None) -> RecordingFile:
        import torch.distributed as dist

        with self._opening:
            if self.file is not None:  # another thread has created it
                return self.file
            if self.refused:
                raise NotRecorded
            known = dist.is_initialized()
            rank = dist.get_rank() if known else int(os.environ.get("RANK", 0)) if rank is None else rank
            try:
                file = RecordingFile(self.folder, rank, dist.get_world_size() if known else 0, self.slots)
            except OSError as error:
                self.refused = True
                print(f"dpsim: rank {rank} is not recorded: {error}", file=sys.stderr, flush=True)
                raise NotRecorded from None
            about = {"host": socket.gethostname(), "machine": machine(), "begun_at": begun_at(os.getpid())}
            file.text(json.dumps({**about, "job": _job()}), layout.PROCESS)
            self.file = file
        watch(file, self._counts)
        return file

    def _met(self, group: Any, ranks: Sequence[int] | None = None) -> RecordedGroup:
        import torch.distributed as dist

        assert self.file is not None
        if ranks is None:
            try:
                ranks = dist.get_process_group_ranks(group)
            except Exception:  # an engine created it without torch's registry: its ranks count from 0
                ranks = range(group.size())
        about = {
            "name": str(group.group_name),
            "desc": str(getattr(group, "group_desc", "")),
            "ranks": [*ranks],
            "library": str(group._get_backend_name()),
            "me": group.rank(),
        }
        known = RecordedGroup(group, self.file.text(json.dumps(about), layout.GROUP), about["library"])
        known.calls = self._counted(group)
        self.groups[id(group)] = known
        weakref.finalize(group, self.groups.pop, id(group), None).atexit = False
        return known

    def _counts(self) -> list[tuple[int, int]]:
        groups = [(known, known.group()) for known in [*self.groups.values()]]
        return [(known.number, max(0, self._counted(one) - known.others)) for known, one in groups if one is not None]

    def _counted(self, group: Any) -> int:
        """Includes calls from C++; 0 if the library does not count."""
        try:
            return int(self.count(group))
        except RuntimeError:
            return 0

    def _place(self, key: tuple[int, ...], frame: FrameType | None) -> int:
        assert self.file is not None
        if len(self._places) >= MOST:
            self._places.clear()
        number = self._places[key] = self.file.text(json.dumps(lines_of(frame)), layout.PLACE)
        return number

    def _thread(self) -> int:
        assert self.file is not None
        number = self._threads[threading.get_ident()] = self.file.text(threading.current_thread().name)
        return number

    def _word(self, word: Any) -> int:
        assert self.file is not None
        number = self._words.get(word)
        if number is None:
            number = self._words[word] = self.file.text(str(word).removeprefix("torch."))
        return number

    def _reduction(self, reduction: Any) -> int:
        """Returns the number of a reduction's name. torch's hash of a reduction is its number."""
        assert self.file is not None
        name = str(getattr(reduction, "op", reduction)).rpartition(".")[2].lower()
        number = self._reductions[hash(reduction)] = self.file.text(name)
        return number

    def miss(self) -> int:
        """The recorder could not describe a call."""
        self.missed += 1
        if self.file is not None:
            self.file.missed(self.missed)
        return 0


def _job() -> str:
    """Returns a text that the ranks of a job share, and that differs between two jobs or two attempts of `torchrun`."""
    return " ".join(os.environ.get(name, "") for name in JOB)


JOB = "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_PORT"
FIRST_TRANSFER = layout.OPS.index("send")
