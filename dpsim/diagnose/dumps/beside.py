"""Beside: reads other evidence that lies beside the dumps: stacks, logs, and the status of communicators from NCCL.

    rank_2.pyspy        what `py-spy dump --pid PID` printed of rank 2
    rank_2.log          what rank 2 printed; its last exception counts
    ras.txt             what NCCL's RAS answers: echo verbose status | nc localhost 28028

All of these files are optional, and the reader ignores a file that it does not understand. RAS is NCCL's status
service. It reports how many operations each rank has launched on a communicator. (NCCL user guide, "RAS"; layouts of
2.24 to 2.32.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from dpsim.contract.words import middle_cut, ranks_text
from dpsim.diagnose.dumps.entries import CallPlace
from dpsim.diagnose.dumps.stacks import read_stacks

LARGEST = 1 << 20
"""The number of bytes that are read: the last ones of a log, the first ones of an answer of RAS."""

_OF_RANK = re.compile(r"(?:.*[^0-9])?(\d{1,9})\.(pyspy|log|err)")
_RAS = re.compile(r"(?:.*[^a-z])?(?:nccl)?ras(?:[^a-z].*)?\.(?:txt|log)", re.IGNORECASE)
_RAISED = r"^(?:\[rank\d+\]: ?)?((?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt)(?:: .*)?)$"
_EXCEPTION = re.compile(_RAISED, re.MULTILINE)
_MANY = re.compile(r"^\s*(\d{1,9}) ranks have launched up to operation (\d{1,18})$")
_ONE = re.compile(r"^\s*Rank (\d{1,9}) has launched up to operation (\d{1,18})\b")
_LISTED = re.compile(r"^\s*Rank (\d{1,9}) -- GPU")
_DEAD = re.compile(r"^\s*(Process \d{1,9} on node \S{1,80} managing GPU\w* [\d,]{1,80})", re.MULTILINE)


class Beside(NamedTuple):
    """Evidence beside the dumps.

    `blocked_at`: by rank, where its program is blocked. `ends`: by rank, the last exception of its log. `ras`: lines
    from RAS. `behind`: the ranks that have launched fewer operations than most.
    """

    blocked_at: dict[int, CallPlace]
    ends: dict[int, str]
    ras: tuple[str, ...]
    behind: tuple[int, ...]


NOTHING = Beside({}, {}, (), ())


def read_beside(folders: Iterable[Path]) -> Beside:
    """Returns the other evidence in the folders of the dumps."""
    blocked_at: dict[int, CallPlace] = {}
    ends: dict[int, str] = {}
    ras: tuple[str, ...] = ()
    behind: tuple[int, ...] = ()
    for file in (file for folder in folders for file in sorted(folder.iterdir()) if file.is_file()):
        of_rank = _OF_RANK.fullmatch(file.name)
        if _RAS.fullmatch(file.name):
            ras, behind = notes_of_ras(_text(file, from_end=False))
        elif of_rank and of_rank[2] == "pyspy":
            place = read_stacks(file, 0)
            if place.line:
                blocked_at[int(of_rank[1])] = place
        elif of_rank:
            found = _EXCEPTION.findall(_text(file, from_end=True))
            if found:
                ends[int(of_rank[1])] = middle_cut(found[-1], 160)
    return Beside(blocked_at, ends, ras, behind)


def notes_of_ras(text: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Returns an answer of RAS in a few lines, and the ranks that are behind."""
    counts: dict[int, int] = {}
    ranks: dict[int, list[int]] = {}
    of = -1
    for line in text.splitlines():
        many, one, listed = _MANY.match(line), _ONE.match(line), _LISTED.match(line)
        if many:
            of = int(many[2])
            counts[of] = int(many[1])
        elif one:
            ranks.setdefault(int(one[2]), []).append(int(one[1]))
            counts[int(one[2])] = counts.get(int(one[2]), 0) + 1
        elif listed and of >= 0:
            ranks.setdefault(of, []).append(int(listed[1]))
    notes = [f"RAS of NCCL: dead is {found}" for found in _DEAD.findall(text)[:2]]
    if len(counts) < 2:
        return tuple(notes), ()
    most = max(counts)
    behind = tuple(sorted(rank for operation, own in ranks.items() if operation < most for rank in own))
    if behind:
        last = min(operation for operation, own in ranks.items() if {*own} & {*behind})
        notes.append(f"RAS of NCCL: {ranks_text(behind)} launched up to operation {last}, others up to {most}")
    return tuple(notes), behind


def _text(file: Path, *, from_end: bool) -> str:
    with file.open("rb") as opened:
        if from_end:
            opened.seek(max(0, file.stat().st_size - LARGEST))
        return opened.read(LARGEST).decode(errors="replace")
