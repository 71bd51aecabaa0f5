"""The processes of a recorded job that live: by this system if it ran them, or else by their last signs of life.

    died(recordings)      # (2,): its process is gone, or silent, and others are not
    all_gone(recordings)  # the job is no longer here: its processes are gone without a word

A process belongs to this system if its boot and its space of process ids equal the reader's. Then an existing process
has not died, even after a long silence: it may hold Python's lock.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsim.contract.machine import begun_at, machine
from dpsim.contract.recording import STACKS
from dpsim.diagnose.recordings.reading import ProcessRecording

SECOND = 1_000_000_000
SILENT_NS = 20 * SECOND
"""A process writes a sign of life twice a second. A process of another system that is silent for longer than others has
died. A process that holds Python's lock is silent too, but writes its lines after 15 s.
"""

EARLIER_NS = 4 * SECOND
"""In a job whose processes are gone, a process that fell silent earlier than another by this time ended before it."""


def died(recordings: Mapping[int, ProcessRecording]) -> tuple[int, ...]:
    """Ranks whose process ended without a word, while another one lived on."""
    here = {rank: _exists(one) for rank, one in recordings.items() if _is_here(one)}
    one_lives = any(here.values())
    newest = max(map(seen_ns, recordings.values()))
    gone = []
    for rank, one in recordings.items():
        if one.end != "runs" or here.get(rank):
            continue
        silent = newest - seen_ns(one)
        bound = EARLIER_NS if rank in here else SILENT_NS
        if (rank in here and one_lives) or (silent > bound and not _wrote_since(one)):
            gone.append(rank)
    return tuple(gone)


def all_gone(recordings: Mapping[int, ProcessRecording]) -> bool:
    """Whether all processes are of this system, none exists any more, and some ended without a word."""
    if any(not _is_here(one) or _exists(one) for one in recordings.values()):
        return False
    return any(one.end == "runs" for one in recordings.values())


def seen_ns(one: ProcessRecording) -> int:
    """When the process was last seen alive, by its own clock."""
    return max(one.alive, one.records[-1].start if one.records else one.began)


def _wrote_since(one: ProcessRecording) -> bool:
    """Whether a process wrote its lines after it fell silent, because it holds Python's lock."""
    stacks = one.path.with_name(one.path.name + STACKS)
    return stacks.exists() and bool(stacks.stat().st_size) and stacks.stat().st_mtime_ns - one.alive > SECOND


def _is_here(one: ProcessRecording) -> bool:
    return bool(one.machine) and one.machine == machine()


def _exists(one: ProcessRecording) -> bool:
    """Whether the process of a recording exists. Another one may have its number by now."""
    return one.begun_at > 0 and begun_at(one.pid) == one.begun_at
