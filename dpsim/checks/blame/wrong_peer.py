"""Wrong peer: a rank waits for a transfer that never arrives, because the send or the receive names another rank.

    rank 1 waits for rank 0, which sent to rank 2, and rank 2 does not receive it ->   culprit rank 0, at its send
    rank 1 waits for rank 0, and rank 2 sent to rank 1 in this step               ->   no culprit, both are named
    the same, and rank 1 receives from others than rank 0 in other steps          ->   culprit rank 1, at its receive

The send that no rank receives must agree with the waiting receive in communicator, count and type. A send to the
waiting rank must be of the same step. Its site must pair up with that of the receive somewhere in the run. Such a send
proves nothing if the rank receives from the awaited sender in other steps.
"""

from __future__ import annotations

from dataclasses import replace

from dpsim.checks.blame.meetings import Partners
from dpsim.checks.blame.steps import name_of
from dpsim.checks.finding import Finding, Part, also, each, left_out_by
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.ops import SITE, Transfer

RECEIVES = "HANG:P2P:UNMATCHED_RECV"


def name_the_wrong_peer(run_index: RunIndex, findings: list[Finding]) -> list[Finding]:
    """Returns the findings. A receive without a send gets the send to the wrong peer as its culprit, if
    there is one.
    """
    if not any(one.klass == RECEIVES for one in findings):
        return findings
    return [_decided(run_index, one) if one.klass == RECEIVES else one for one in findings]


def _decided(run_index: RunIndex, finding: Finding) -> Finding:
    if finding.culprit is not None:
        return _wrong_source(run_index, finding)
    decided = _with_culprit(run_index, finding)
    decided = _wrong_source(run_index, finding) if decided.culprit is None else decided
    return finding if decided.culprit is None else decided


def _wrong_source(run_index: RunIndex, finding: Finding) -> Finding:
    awaited = None if finding.culprit is None else finding.culprit.rank
    for (communicator, sender, receiver), (sends, receives) in run_index.transfers.items():
        if awaited not in (None, sender) or len(receives) <= len(sends):
            continue
        wanted = receives[len(sends)]
        stray = _sent_by_another(run_index, wanted, sender) if run_index.position(wanted) == finding.position else None
        if stray is None:
            continue
        others = _sources(run_index, communicator, wanted)
        if sender in others:
            continue
        reason = f"rank {stray.rank} sent to rank {receiver} ({stray.record.site}, step {stray.step}), unreceived"
        message = also(*_without_guess(finding.message, sender), reason)
        if not others:
            why = f"{reason}: rank {receiver} names the wrong rank, or rank {sender} owes a send"
            return replace(finding, message=message, culprit=None, ground=(), why=why)
        usual = f"rank {receiver} does not receive from rank {sender} at {wanted.record.site} in other steps"
        return replace(finding, message=message, culprit=run_index.culprit(wanted), ground=(reason, usual), why="")
    return finding


def _without_guess(message: Part, sender: int) -> list[Part]:
    return [part for part in each(message) if left_out_by(part) != (sender,)]


def _sent_by_another(run_index: RunIndex, wanted: Entry, sender: int) -> Entry | None:
    partners = Partners(run_index)
    for (_, by, to), (sends, receives) in run_index.transfers.items():
        for stray in sends[len(receives) :] if to == wanted.rank and by != sender else ():
            alike = _elements(stray) == _elements(wanted) and stray.step == wanted.step
            if alike and partners.meet(name_of(stray.raw), name_of(wanted.raw)):
                return stray
    return None


def _sources(run_index: RunIndex, communicator: str, wanted: Entry) -> set[int]:
    return {
        sender
        for (name, sender, receiver), (_, receives) in run_index.transfers.items()
        if (name, receiver) == (communicator, wanted.rank)
        and any(one.step != wanted.step and one.raw[SITE] == wanted.raw[SITE] for one in receives)
    }


def _with_culprit(run_index: RunIndex, finding: Finding) -> Finding:
    for (communicator, sender, receiver), (sends, receives) in run_index.transfers.items():
        if len(receives) <= len(sends):
            continue
        wanted = receives[len(sends)]
        for (other, by, to), (made, taken) in run_index.transfers.items():
            if (other, by) == (communicator, sender) and to != receiver and len(made) > len(taken):
                stray = made[len(taken)]
                if _elements(stray) == _elements(wanted):
                    sent = f"rank {sender} sent to rank {to} ({stray.record.site}, step {stray.step}), unreceived"
                    reason = f"{sent}; rank {receiver} waits for a send of rank {sender}"
                    return replace(finding, culprit=run_index.culprit(stray), ground=(*finding.ground, reason))
    return finding


def _elements(entry: Entry) -> tuple[object, ...]:
    record = entry.record
    assert isinstance(record, Transfer)
    return record.communicator, record.count, record.dtype
