"""Wrong peer: a rank waits for a transfer that never arrives, because the sender sent it to another rank.

    rank 1 waits for rank 0, which sent to rank 2, and rank 2 receives nothing    ->   culprit rank 0, at its send

The send that no rank receives must agree with the waiting receive in communicator, count and type.
"""

from __future__ import annotations

from dataclasses import replace

from dpsim.checks.finding import Finding
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.ops import Transfer

RECEIVES = "HANG:P2P:UNMATCHED_RECV"


def name_the_wrong_peer(run_index: RunIndex, findings: list[Finding]) -> list[Finding]:
    """Returns the findings. A receive without a send gets the send to the wrong peer as its culprit, if
    there is one.
    """
    return [_with_culprit(run_index, one) if one.klass == RECEIVES and one.culprit is None else one for one in findings]


def _with_culprit(run_index: RunIndex, finding: Finding) -> Finding:
    for (communicator, sender, receiver), (sends, receives) in run_index.transfers.items():
        if len(receives) <= len(sends):
            continue
        wanted = receives[len(sends)]
        for (other, by, to), (made, taken) in run_index.transfers.items():
            if (other, by) == (communicator, sender) and to != receiver and len(made) > len(taken):
                stray = made[len(taken)]
                if _elements(stray) == _elements(wanted):
                    reason = f"rank {sender} sent to rank {to}, which receives nothing; rank {receiver} waits for it"
                    return replace(finding, culprit=run_index.culprit(stray), ground=(*finding.ground, reason))
    return finding


def _elements(entry: Entry) -> tuple[object, ...]:
    record = entry.record
    assert isinstance(record, Transfer)
    return record.communicator, record.count, record.dtype
