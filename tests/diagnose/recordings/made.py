"""Recordings of jobs that never ran, in the recorder's format.

job = MadeJob(folder, 4)
job.call(0, "all_reduce"); ...          # a call that ended
job.call(1, "all_reduce", over=False)   # the rank waits in it
job.end(0)                              # its program ended
job.explained()
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

from dpsim.contract import recording as layout
from dpsim.diagnose.dumps.explanation import Explanation
from real.record.ring import RecordingFile
from tests.explained import explain_recordings

LINES = [["step", "train.py:42"], ["main", "train.py:60"]]
QUIET_NS = 60_000_000_000


class MadeJob:
    """The ranks of one group. `library`: of the group; `name`: of the job. All processes live, and have made no call
    for a minute.
    """

    def __init__(self, folder: Path, size: int, library: str = "gloo", slots: int = 64, name: str = "") -> None:
        self.folder, self.size = folder, size
        self.files = [RecordingFile(folder / str(rank), rank, size, slots) for rank in range(size)]
        for file in self.files:
            file.text(json.dumps({"machine": "here", "begun_at": "00001" if name else "BEGAN", "job": name}))
        self.groups = [
            file.text(
                json.dumps(
                    {"name": "0", "desc": "default_pg", "ranks": [*range(size)], "library": library, "me": rank}
                ),
                layout.GROUP,
            )
            for rank, file in enumerate(self.files)
        ]
        self.seqs = Counter[object]()
        for file in self.files:
            self.quiet(file)

    def quiet(self, file: RecordingFile, by_ns: int = QUIET_NS) -> None:
        began = layout.HEAD.unpack_from(file.memory)[7]
        layout.ALIVE.pack_into(file.memory, layout.ALIVE_AT, began + by_ns)

    def call(
        self,
        rank: int,
        op: str,
        *,
        elements: int = 16,
        dtype: str = "float32",
        reduction: str = "sum",
        peer: int = -1,
        over: bool = True,
        thread: str = "MainThread",
        lines: list[list[str]] | None = None,
    ) -> int:
        file = self.files[rank]
        key = (rank, op, peer) if op in ("send", "recv") else rank
        self.seqs[key] += 1
        place = file.text(json.dumps(lines or LINES), layout.PLACE)
        words = file.text(thread), file.text(dtype), file.text(reduction)
        number = file.put(
            layout.CALL,
            layout.OPS.index(op),
            *words,
            self.groups[rank],
            place,
            self.seqs[key],
            peer,
            elements if op != "recv" else 0,
            elements if op != "send" else 0,
        )
        if over:
            file.end(number)
        else:
            file.waits(number)
        return number

    def raises(self, rank: int, op: str) -> None:
        """Adds a call that raises, after which the program continues."""
        self.files[rank].failed(self.call(rank, op))

    def all(self, op: str, *, over: bool = True, **more: object) -> None:
        for rank in range(self.size):
            self.call(rank, op, over=over, **more)  # type: ignore[arg-type]

    def step(self, rank: int, number: int) -> None:
        self.files[rank].put(layout.STEP, 0, 0, 0, 0, 0, 0, 0, 0, number, 0)

    def decide(self, rank: int, label: str, value: object) -> None:
        file = self.files[rank]
        place = file.text(json.dumps(LINES), layout.PLACE)
        label_at, value_at = file.text(label), file.text(repr(value))
        file.put(layout.DECISION, 0, 0, 0, 0, 0, place, 0, label_at, value_at, 0)

    def end(self, rank: int, how: str = "ended", error: str = "") -> None:
        self.files[rank].ended(how, error)

    def dies(self, rank: int) -> None:
        """Makes the rank stop its signs of life."""
        self.quiet(self.files[rank], 1_000_000)

    def stands(self, rank: int, line: str) -> None:
        """Writes this line of the rank's main thread, as the fault handler of the process does."""
        main = layout.HEAD.unpack_from(self.files[rank].memory)[8]
        file, number = line.rsplit(":", 1)
        text = f'Thread 0x{main:016x} (most recent call first):\n  File "{file}", line {number} in busy\n'
        path = self.files[rank].path
        stacks = path.with_name(path.name + layout.STACKS)
        stacks.write_text(text)
        at = layout.HEAD.unpack_from(self.files[rank].memory)[7] + QUIET_NS
        os.utime(stacks, ns=(at, at))

    def count(self, rank: int, calls: int) -> None:
        self.files[rank].counted(self.groups[rank], calls)

    def gathered(self) -> Path:
        """Returns a folder with the files of all ranks."""
        together = self.folder / "job"
        together.mkdir()
        for file in self.files:
            for path in file.path.parent.iterdir():
                path.rename(together / path.name)
        return together

    def explained(self) -> Explanation:
        return explain_recordings(self.gathered())
