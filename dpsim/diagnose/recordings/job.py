"""Job: combines the recordings of a folder into one job, with the calls of each rank and where each program is blocked.

    job = recorded_job(folder)
    job.dumped.calls[2]          # the calls of rank 2, as those of a dump
    job.recordings[2].end        # "runs"

Whether a call is over depends on the library. A call of gloo is over when it returns, or when the program has waited
for its Work. So a rank is blocked in the call that it waits for, or in its last call if that has not returned.

NCCL's calls return at once, and no recording shows the device. So an NCCL call counts as over when all members have
made it. Each host thread may be blocked in another call.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from dpsim.contract.recording import CALL, RAISED, STACKS
from dpsim.diagnose.dumps.beside import read_beside
from dpsim.diagnose.dumps.entries import NOWHERE, CallPlace, RecordedCall, Shape
from dpsim.diagnose.dumps.job import DumpedJob, job_of
from dpsim.diagnose.dumps.reading import Dumps, RankDump
from dpsim.diagnose.dumps.stacks import read_stacks
from dpsim.diagnose.recordings.living import SECOND, all_gone, died
from dpsim.diagnose.recordings.reading import ProcessRecording, RecordedIn, RecordingError, RingRecord, read_recording

LOST = re.compile(r"[Cc]onnection (?:closed|reset|refused|was lost)|[Bb]roken pipe|remote process exited")
"""Matches exceptions of gloo and NCCL that follow the death of a peer's process."""

NAME = re.compile(r"rank_(\d{1,9})\.(\d{1,9})\.recording")

IN_CPP = "a call made in C++"
"""Stands for a collective that the library counts but the recorder did not observe."""


class RecordedJob(NamedTuple):
    """A job from its recordings.

    `died`: ranks whose process ended without recording its end. `gone`: no process exists any more, and some did not
    record their end. `others`: the number of processes of earlier jobs in the same folder.
    """

    dumped: DumpedJob
    recordings: dict[int, ProcessRecording]
    died: tuple[int, ...]
    gone: bool
    others: int = 0


def has_recordings(folder: Path) -> bool:
    return folder.is_dir() and any(NAME.fullmatch(file.name) for file in folder.iterdir())


def recorded_job(folder: Path) -> RecordedJob:
    """Returns the job of a folder's recordings. Raises RecordingError."""
    every = read_every(folder)
    recordings = of_newest_job(every)
    places = {rank: _place(one) for rank, one in recordings.items()}
    dead = _noticed(recordings) or died(recordings)
    keys = {
        rank: {number: f"{group.library}:{group.name}" for number, group in one.groups.items()}
        for rank, one in recordings.items()
    }
    reached = _reached(recordings, keys)
    members = {group.name: group.ranks for one in recordings.values() for group in one.groups.values()}
    described = {
        keys[rank][number]: group.description
        for rank, one in recordings.items()
        for number, group in one.groups.items()
    }
    ranks = {}
    for rank, one in recordings.items():
        calls = [*_calls(one, keys[rank], reached, members), *_in_cpp(one, keys[rank], places[rank], reached)]
        wrapped = frozenset(group.library for group in one.groups.values()) if one.wrapped else frozenset()
        ranks[rank] = RankDump(rank, calls, wrapped, 0, False)
    blocked_in = {rank: place for rank, place in places.items() if place.line}
    job = job_of(Dumps(ranks, members, described, read_beside([folder])._replace(blocked_at=blocked_in)))
    job = job._replace(missing=tuple(sorted({*job.missing, *dead})))
    [name] = {one.job for one in recordings.values()}
    others = sum(one.job != name for one in every)
    return RecordedJob(job, recordings, dead, all_gone(recordings), others)


def read_every(folder: Path) -> list[ProcessRecording]:
    """Returns all recordings of a folder. Raises RecordingError."""
    found = [read_recording(file) for file in sorted(folder.iterdir()) if NAME.fullmatch(file.name)]
    if not found:
        raise RecordingError(f"{folder}: no recording in it; expected files such as rank_0.4711.recording")
    return found


def of_newest_job(every: list[ProcessRecording]) -> dict[int, ProcessRecording]:
    """Returns, by rank, the processes of the job that began last. If several processes had one rank, the last one
    counts.
    """
    ordered = sorted(every, key=lambda one: one.began)
    return dict(sorted((one.rank, one) for one in ordered if one.job == ordered[-1].job))


def _place(one: ProcessRecording) -> CallPlace:
    """Returns where the program is blocked; NOWHERE if it has ended, or made a call since."""
    return NOWHERE if one.end != "runs" else read_stacks(one.path.with_name(one.path.name + STACKS), one.main)


def _noticed(recordings: dict[int, ProcessRecording]) -> tuple[int, ...]:
    """Returns the processes that did not record their end, if all others raised because a connection closed.

    If a launcher ends the rest of a job after some other exception, the others do not raise these exceptions.
    """
    ended = [one for one in recordings.values() if one.end != "runs"]
    silent = [one for one in recordings.values() if one.end == "runs"]
    if not ended or not all(LOST.search(one.error) for one in ended):
        return ()
    last = max(one.alive for one in ended)
    return tuple(one.rank for one in silent) if all(one.alive < last + SECOND for one in silent) else ()


Reached = dict[tuple[str, int], int]
"""The number of collectives that a rank made in a group."""


def _reached(recordings: dict[int, ProcessRecording], keys: dict[int, dict[int, str]]) -> Reached:
    found: Reached = {}
    for rank, one in recordings.items():
        last = _last(one)
        for number, key in keys[rank].items():
            found[key, rank] = max(last.get(number, 0), one.counted.get(number, 0))
    return found


def _last(one: ProcessRecording) -> dict[int, int]:
    """Returns, by group, the number of the last collective that the recorder observed."""
    collectives = [record for record in one.records if record.kind == CALL and record.op not in ("send", "recv")]
    return {record.group: record.seq for record in collectives if record.group in one.groups}


def _calls(
    one: ProcessRecording, keys: dict[int, str], reached: Reached, members: dict[str, tuple[int, ...]]
) -> list[RecordedCall]:
    """Returns the calls of a process."""
    calls = [record for record in one.records if record.kind == CALL and record.group in one.groups]
    blocked_in = _blocked_in(one, calls)
    found = []
    for record in calls:
        group, key = one.groups[record.group], keys[record.group]
        transfer = record.op in ("send", "recv")
        all_arrived = transfer or all(reached.get((key, rank), 0) >= record.seq for rank in members[group.name])
        over = record.number not in blocked_in and record.end != RAISED
        if group.library == "nccl" and not transfer:
            over = all_arrived
        found.append(_call(record, group, key, over))
    return found


def _blocked_in(one: ProcessRecording, calls: list[RingRecord]) -> frozenset[int]:
    """Returns the numbers of the calls in which the host threads of a process are blocked.

    These are the call that the program waits for, and each thread's last call if it has not returned.
    """
    if one.end != "runs":
        return frozenset()
    last = {record.thread: record for record in calls}
    waits = next((record for record in reversed(calls) if record.number == one.waits and not record.end), None)
    if waits is not None:
        last[waits.thread] = waits
    return frozenset(record.number for record in last.values() if not record.end)


def _call(record: RingRecord, group: RecordedIn, key: str, over: bool) -> RecordedCall:
    transfer = record.op in ("send", "recv")
    dims = (
        ((record.input_size,),) if record.input_size or not record.output_size else (),
        ((record.output_size,),) if record.output_size else (),
    )
    types = (record.dtype,) if record.dtype else ()
    who = (group.me, record.peer) if transfer else (-1, -1)
    root = -1 if transfer else record.peer
    shape = Shape(record.op, *who, dims, (types, types), root, record.reduction)
    return RecordedCall(
        group=key,
        seq=record.seq,
        shape=shape,
        place=record.place,
        over=over,
        created=record.start,
        ended=record.end,
        record=record.number,
        op_id=record.number,
        timeout_ms=0,
    )


def _in_cpp(one: ProcessRecording, keys: dict[int, str], place: CallPlace, reached: Reached) -> list[RecordedCall]:
    """Returns, for each group, the last call that the library counts beyond the last one that the recorder observed."""
    found = []
    last = _last(one)
    for number, counted in one.counted.items():
        group, key = one.groups[number], keys[number]
        if counted > last.get(number, 0) and one.end == "runs":
            arrived = all(reached.get((key, rank), 0) >= counted for rank in group.ranks)
            shape = Shape(IN_CPP, -1, -1, ((), ()), ((), ()))
            beyond = any(reached.get((key, rank), 0) > counted for rank in group.ranks)  # so this call returned
            over = arrived and (beyond or not place.line)
            newest = one.records[-1].start if one.records else one.began
            found.append(RecordedCall(key, counted, shape, place, over, newest, 0, 1 << 60, 1 << 60, 0))
    return found
