"""Living: finds out which processes of a recorded job died.

    died(recordings)      # (2,): its process is gone, or silent, and others are not
    all_gone(recordings)  # the job is no longer here: its processes are gone without a word

If a process ran on this machine, the operating system knows whether it exists. This needs the same boot and the same
namespace of process ids. A process that exists has not died, even after a long silence: it may hold Python's lock. For
a process of another machine, only the time of its last sign of life counts.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsim.contract.machine import begun_at, machine
from dpsim.contract.recording import STACKS
from dpsim.diagnose.recordings.reading import ProcessRecording

SECOND = 1_000_000_000
SILENT_NS = 20 * SECOND
"""A process of another machine that is silent for longer than this, while others are not, has died.

Each process writes a sign of life twice a second. A process that holds Python's lock cannot, but it writes its stack
after 15 s.
"""

EARLIER_NS = 4 * SECOND
"""If all processes are gone, one that fell silent earlier than another by more than this died first."""


def died(recordings: Mapping[int, ProcessRecording]) -> tuple[int, ...]:
    """Returns the ranks whose process ended without recording its end, while another process continued."""
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
    """Returns whether all processes ran on this machine, none exists any more, and some did not record their end."""
    if any(not _is_here(one) or _exists(one) for one in recordings.values()):
        return False
    return any(one.end == "runs" for one in recordings.values())


def seen_ns(one: ProcessRecording) -> int:
    """Returns when the process was last seen alive, by its own clock."""
    return max(one.alive, one.records[-1].start if one.records else one.began)


def _wrote_since(one: ProcessRecording) -> bool:
    """Returns whether a process wrote its stack after its last sign of life, because it holds Python's lock."""
    stacks = one.path.with_name(one.path.name + STACKS)
    return stacks.exists() and bool(stacks.stat().st_size) and stacks.stat().st_mtime_ns - one.alive > SECOND


def _is_here(one: ProcessRecording) -> bool:
    return bool(one.machine) and one.machine == machine()


def _exists(one: ProcessRecording) -> bool:
    """Returns whether the process of a recording exists. Another process may have its id by now, so start
    times count.
    """
    return one.begun_at > 0 and begun_at(one.pid) == one.begun_at
