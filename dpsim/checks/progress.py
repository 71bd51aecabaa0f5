"""Progress: after the last planted fault, a run must reach its end within a bound of ops (`World.progress`).

    rank 0 gets with a time-out, again and again, each time another key   ->   PROGRESS:BOUND, culprit rank 0

The simulation stops the run as soon as an actor exceeds the bound (`Run.overdue`). The check reads from the end of the
actor's journal what the actor repeated. This finding comes first. `judge` reports no hang beside it, because an actor
that waited at that moment might have continued.

Two other violations need no bound. If no actor can move, the run is a hang. If the run repeats exactly the same ops, it
is a livelock.

Some failures are invisible here. If a message is lost and all actors then wait in idle gets, the run counts as ended. A
protocol can prevent this: an actor that needs an answer waits for it in a get that is not idle. Then the lost message
is a hang.
"""

from __future__ import annotations

from dpsim.checks.finding import Culprit, Finding
from dpsim.checks.livelock import repeated, text
from dpsim.checks.run_index import RunIndex
from dpsim.contract.ops import KIND

FEW = 8


def check(run_index: RunIndex) -> list[Finding]:
    """Returns a finding for the actor that exceeded the bound; empty if none did."""
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
