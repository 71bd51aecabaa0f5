"""Peers: finds a rank that waits in a transfer with another peer than before at this source line.

    rank 2   recv from rank 1 at ring.py:12   recv from rank 1   recv from rank 1   recv from rank 3      ->  rank 2

A pipeline rank may use several peers at one line. So all earlier calls at the line must have the same peer, and the new
peer must not have made its side of the transfer.
"""

from __future__ import annotations

from dpsim.contract.words import times
from dpsim.diagnose.dumps.blocked_ranks import BlockedRanks, DumpWait
from dpsim.diagnose.dumps.deciding import Decided
from dpsim.diagnose.dumps.job import DumpedJob

EARLIER = 2
"""The smallest number of earlier calls with another peer."""


def wrong_peer(job: DumpedJob, blocked: BlockedRanks) -> Decided | None:
    """Returns the decision against the one rank that waits for a peer which it never used at this line, or None."""
    found = [decided for own in blocked.waits.values() if (decided := _stray(job, own[0])) is not None]
    return found[0] if len(found) == 1 else None


def _stray(job: DumpedJob, wait: DumpWait) -> Decided | None:
    call = wait.call
    if not call.shape.is_transfer or not call.place.line:
        return None
    place = call.group, call.shape.op, call.place
    before = [
        job.peer(one)
        for one in job.calls[wait.rank]
        if one.record < call.record and (one.group, one.shape.op, one.place) == place
    ]
    now = job.peer(call)
    if len(before) < EARLIER or len({*before}) != 1 or now in before:
        return None
    way = {"send": "sends to", "recv": "receives from"}[call.shape.op]
    message = f"rank {wait.rank} {way} rank {now}, which does not answer; its earlier calls there name rank {before[0]}"
    ground = (f"{times(len(before))} before, the peer at {call.place.line} was rank {before[0]}",)
    klass = f"HANG:P2P:UNMATCHED_{call.shape.op.upper()}"
    return Decided(klass, (wait.rank,), (), call.group, call, message, "medium", ground)
