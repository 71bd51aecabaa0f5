"""Progress: after the last fault a run comes to its end, within a bound (`World.progress`).

That somebody passed the bound is what the simulation saw (`Run.overdue`), which ends the run there; what he was about
is read from the tail of his journal.

    rank 0 gets with a time-out, again and again, each time another key   ->   PROGRESS:BOUND, culprit rank 0

It is the first finding, and `judge` leaves hangs out beside it: whoever stood somewhere at the cut might have gone on.

A run in which nothing could move is a hang, and one that repeats itself for ever a livelock, without any bound. What no
journal shows is a state that nobody acts on, such as a coordinator's belief that engines run (museum, coord-latch): all
wait idly, which is a good end. So a protocol says what it owes by a get that is not idle, as a client does that waits
for its answer; then a stop is a hang.
"""

from __future__ import annotations

from dpsim.checks.finding import Culprit, Finding
from dpsim.checks.livelock import repeated, text
from dpsim.checks.run_index import RunIndex
from dpsim.contract.ops import KIND

FEW = 8


def check(run_index: RunIndex) -> list[Finding]:
    """One finding for the one who passed the bound; none where there was none, or the run came to its end."""
    run, most = run_index.run, run_index.world.progress
    if not run.overdue:
        return []
    (rank,) = run.endless
    last, texts = repeated(run_index, rank)[-1], list(dict.fromkeys(map(text, repeated(run_index, rank))))
    planted = any(raw[KIND] == "injected" for journal in run.journals for raw in journal)
    since = " after the last fault" if planted else ""
    living = [number for number, end in enumerate(run.ends) if end == "blocked" and number != rank]
    return [
        Finding(
            check="progress",
            klass="PROGRESS:BOUND",
            message=f"rank {rank} issued more than {most:,} ops{since}, and the run has no end",
            culprit=Culprit.of(rank, last.record),
            position=(last.step, last.at),
            details=(
                f"rank {rank} went through {', '.join(texts[-FEW:])}",
                *(f"rank {other} has not ended either" for other in living[:FEW]),
            ),
        )
    ]
