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

from dpsim.checks.finding import Culprit, Finding, fact
from dpsim.checks.livelock import op_fact, repeated
from dpsim.checks.run_index import RunIndex
from dpsim.contract.ops import KIND

FEW = 8


def check(run_index: RunIndex) -> list[Finding]:
    """Returns a finding for the actor that exceeded the bound; empty if none did."""
    run, most = run_index.run, run_index.world.progress
    if not run.overdue:
        return []
    (rank,) = run.endless
    ops = repeated(run_index, rank)
    planted = any(raw[KIND] == "injected" for journal in run.journals for raw in journal)
    living = [number for number, end in enumerate(run.ends) if end == "blocked" and number != rank]
    return [
        Finding(
            check="progress",
            klass="PROGRESS:BOUND",
            message=fact("too_many_ops", rank=rank, most=most, planted=planted),
            culprit=Culprit.of(rank, ops[-1].record),
            position=(ops[-1].step, ops[-1].at),
            details=(
                fact("went_through", rank=rank, ops=tuple(map(op_fact, ops[-FEW:]))),
                *(fact("not_ended", rank=other) for other in living[:FEW]),
            ),
        )
    ]
