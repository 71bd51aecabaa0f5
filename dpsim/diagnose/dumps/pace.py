"""Pace: whether a job still moved at the time of the dump.

A dump of a healthy job has calls that are not over, too. Three things tell it from a hang:

* two dumps of a rank differ: it has called or ended something between them;
* a call is over at one rank that another one did not make, and their calls so far are the same. Then the dumps are of
  different times, and the job went on between them;
* the newest call is no older than the job's own pauses between calls. A dump's age is the time at which its file was
  written, which a copy may lose: `cp -p`, `rsync -t` and `tar` keep it.

Without any of these the job counts as hung, because engineers dump hung jobs.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from dpsim.contract.words import duration, ranks_text
from dpsim.diagnose.dumps.job import DumpedJob, DumpGroup
from dpsim.diagnose.dumps.partings import called

SECOND = 1_000_000_000

LEAST_NS = SECOND // 4
"""If the newest call is younger than this, the job moves, whatever its pauses are."""

OLD_NS = 3600 * SECOND
"""If a file is newer than its newest call by more than this, a user copied it, or the job has hung for long."""


class Pace(NamedTuple):
    """Whether the job moved, whether that is certain, the reason, and the lines about its age."""

    moving: bool
    sure: bool
    why: str
    ground: tuple[str, ...]


def pace(job: DumpedJob) -> Pace:
    """Whether a job moved when it was dumped."""
    moved = [rank for rank, dump in job.dumps.items() if dump.moved]
    if moved:
        return Pace(True, True, f"two dumps of {ranks_text(moved)} differ: it went on between them", ())
    for group in job.groups.values():
        ahead = _ahead(group)
        if ahead:
            return Pace(True, True, ahead, ())
    quiet = _quiet_ns(job)
    if quiet is None:
        return Pace(False, False, "", ())
    usual = _longest_pause_ns(job)
    if quiet < max(LEAST_NS, min(usual, OLD_NS)):
        why = f"the newest call is {duration(quiet)} older than the dump, and pauses of {duration(usual)} came before"
        return Pace(True, False, why, ())
    ground = (f"no rank called anything in the {duration(quiet)} before the dump",) if quiet < OLD_NS else ()
    return Pace(False, False, "", ground)


def _ahead(group: DumpGroup) -> str:
    """A line about a call that is over at one rank, while another rank with the same earlier calls did not make or end
    it.
    """
    calls = {rank: own for rank, own in group.calls.items() if own}
    if len(calls) < 2 or {*calls} != {*group.members}:
        return ""
    over = {rank: max((call.seq for call in own if call.over), default=0) for rank, own in calls.items()}
    first = max(over, key=lambda rank: over[rank])
    last = min(calls, key=lambda rank: calls[rank][-1].seq)
    seq = over[first]
    if calls[last][-1].seq >= seq:
        return ""
    mine = {call.seq: called(call.shape) for call in calls[first]}
    if any(mine.get(call.seq, called(call.shape)) != called(call.shape) for own in calls.values() for call in own):
        return ""
    if not mine[seq].op.startswith(("all", "_all", "barrier")):
        return ""
    return (
        f"#{seq} on {group.name} is over at rank {first}, and rank {last}, without which it cannot end, "
        f"shows #{calls[last][-1].seq} as its last: the dumps are of different times"
    )


def _quiet_ns(job: DumpedJob) -> int | None:
    """The time from the newest call to the first dump; None if the files do not show it."""
    newest = max((call.created for own in job.calls.values() for call in own[-1:]), default=0)
    written = min((dump.written_ns for dump in job.dumps.values()), default=0)
    return written - newest if 0 < newest <= written else None


def _longest_pause_ns(job: DumpedJob) -> int:
    """The longest time without a call of any rank, in the newer half of the dumps."""
    times = sorted(call.created for own in job.calls.values() for call in own[-200:])
    newer = times[len(times) // 2 :]
    return max((after - before for before, after in pairwise(newer)), default=0)
