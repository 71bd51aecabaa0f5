"""Progress: after the last fault a run reaches its end, within a bound (`World.progress`).

The simulation ends the run when an actor passes the bound (`Run.overdue`). The check reads from the tail of the actor's
journal what the actor was doing.

    rank 0 gets with a time-out, again and again, each time another key   ->   PROGRESS:BOUND, culprit rank 0

It is the first finding, and `judge` leaves hangs out beside it, because an actor that waited at the cut might have
continued.

A run in which nothing can move is a hang. A run that repeats itself without end is a livelock, without any bound. No
journal shows a state that no actor acts on, such as a coordinator's belief that engines run (museum, coord-latch). All
actors wait idly, which is a good end. So a protocol declares what it owes by a get that is not idle, like a client that
waits for its answer. Then a stop is a hang.
"""

from __future__ import annotations

from dpsim.checks.finding import Culprit, Finding
from dpsim.checks.livelock import repeated, text
from dpsim.checks.run_index import RunIndex
from dpsim.contract.ops import KIND

FEW = 8


def check(run_index: RunIndex) -> list[Finding]:
    """One finding for the actor that passed the bound; none without one, or if the run reached its end."""
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
