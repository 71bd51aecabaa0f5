"""Where a run stands still because a host stands in a plain call: a part of deadlock.

A launch and an allocation return at once, unless a limit of the world holds them up: a full launch queue, an allocation
that synchronises. The device then waits for a peer, and the peer for something that this host would have done next:

    rank 0   all_reduce on dp #0, launch more[1]     its queue is full; the message to rank 1 is never sent
    rank 1   get go                                  waits for that message before it joins dp #0

So a rank that peers wait for, and that stands in such a call, did not leave anything out. Which ranks stand so only the
machine knows (`Run.standing`); in which call is their last record.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.checks.finding import Culprit, Finding
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.ops import KIND
from dpsim.words import counted


def held_up(
    run_index: RunIndex, awaited: Sequence[int] = (), letters: Sequence[Finding] = (), details: Sequence[str] = ()
) -> list[Finding]:
    """One finding for the first rank that stands in a plain call, with what is to be said of the others.

    None if no rank does, or if nobody waits for it. `awaited`: ranks that peers wait for and that wait in no collective
    or transfer; one of them that neither stands so nor waits for a message (`letters`) is to blame itself.
    """
    run = run_index.run
    standing = [last for rank in run.standing if (last := run_index.last(rank)) is not None]
    silent = {finding.culprit.rank for finding in letters if finding.culprit is not None}
    if not standing or not {*awaited} <= {*run.standing, *silent}:
        return []
    first, *others = sorted(standing, key=run_index.position)
    lines = [*(_where(run_index, other) for other in others), *(letter.message for letter in letters), *details]
    return [
        Finding(
            check="deadlock",
            klass="HANG:HOST:ALLOC" if first.raw[KIND] == "alloc" else "HANG:HOST:LAUNCH_QUEUE",
            message=_where(run_index, first),
            culprit=Culprit.of(first.rank, first.record),
            position=run_index.position(first),
            details=tuple(lines),
        )
    ]


def _where(run_index: RunIndex, last: Entry) -> str:
    record, room = last.record, run_index.world.launch_queue
    if last.raw[KIND] == "alloc":
        why = "it needs new memory, and waits for all that the rank has put on its device"
    else:
        why = f"{counted(room or 0, 'op')} before it on that stream have not ended, and the launch queue holds no more"
    return f"rank {last.rank} stands in {record.site} ({record.describe()}, step {record.step}): {why}"
