"""Leftover: finds ops that a program began and never completed, although the program reached its end.

* LEFTOVER:NEVER_AWAITED: the program never awaited the result of an op. So it does not know whether the op succeeded.
* LEFTOVER:SEND, LEFTOVER:RECV: a transfer for which the peer's program made no matching call. The next transfer between
  the two ranks would pair up with it.

      rank 0   send   send   ended
      rank 1   recv          ended      ->   LEFTOVER:SEND

The check reads only programs that ended. A program that raised, died or waits in an idle get might have completed the
op later. A message that no rank took is no violation, because a program may abandon a mailbox. For each site, and for
each pair of ranks, the finding shows the first op and counts the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpsim.checks.finding import Finding, fact
from dpsim.checks.run_index import Entry, RunIndex, TransferLine
from dpsim.checks.transfers import called, new_value_before, odd_side
from dpsim.contract.kinds import MEETS, learns
from dpsim.contract.ops import ADDRESS, COMMUNICATOR, KIND, ORDINAL, SITE, STREAM, RawRecord


def check(run_index: RunIndex) -> list[Finding]:
    """Returns at most one finding for each site, and one for each direction between two ranks of a communicator."""
    ended = [bool(journal) and journal[-1][KIND] == "finished" for journal in run_index.run.journals]
    sites: dict[tuple[str, str], list[Entry]] = {}
    for rank, came_to_its_end in enumerate(ended):
        for entry in _pending(run_index, rank) if came_to_its_end else ():
            sites.setdefault((entry.raw[KIND], entry.raw[SITE]), []).append(entry)
    findings = [_never_awaited(run_index, entries) for entries in sites.values()]
    for (name, *peers), line in run_index.transfers.items():
        if any(run_index.gave_up(rank, name) for rank in peers):
            continue
        if len(line.sends) != len(line.receives) and all(ended[rank] for rank in peers):
            findings.append(_without_partner(run_index, peers, line))
    return findings


def _pending(run_index: RunIndex, rank: int) -> Iterator[Entry]:
    """Returns the ops that a rank began and whose results it never received."""
    started: dict[Any, int] = {}
    journal = run_index.run.journals[rank]
    for at, raw in enumerate(journal):
        kind = raw[KIND]
        if kind == "learned":
            if started.pop(raw[ADDRESS], None) is None:
                started.pop(_of_another_thread(started, raw), None)
        elif kind in MEETS and raw[STREAM] is None and run_index.gave_up(rank, raw[COMMUNICATOR]):
            continue  # a rank need not await an op that its own abort broke off
        elif learns(raw) and raw[ORDINAL] >= 0:  # the program does not know of an inserted call
            started[raw[ADDRESS]] = at
    return (Entry(rank, at, journal[at]) for at in started.values())


def _of_another_thread(started: Mapping[Any, int], learned: RawRecord) -> object:
    at = learned[SITE : ORDINAL + 1]
    return next((one for one in started if one[1:] == at), None)


def _never_awaited(run_index: RunIndex, entries: list[Entry]) -> Finding:
    first = min(entries, key=lambda entry: (run_index.position(entry), entry.rank))
    more = len(entries) - 1
    rest = fact("more_like_it", more=more, ranks=len({one.rank for one in entries})) if more else None
    return Finding(
        check="leftover",
        klass="LEFTOVER:NEVER_AWAITED",
        message=fact("never_awaited", rank=first.rank, op=first.record, more=rest),
        culprit=run_index.of_all(first, entries),
        position=run_index.position(first),
    )


def _without_partner(run_index: RunIndex, peers: Sequence[int], line: TransferLine) -> Finding:
    sent, received = map(len, line)
    klass, side, peer = (
        ("LEFTOVER:SEND", line.sends, peers[1]) if sent > received else ("LEFTOVER:RECV", line.receives, peers[0])
    )
    fewer, entry = min(sent, received), side[min(sent, received)]
    odd, more = odd_side(line)
    why = new_value_before(run_index, line, odd)
    odd, more = (None, None) if why else (odd, more)
    return Finding(
        check="leftover",
        klass=klass,
        message=fact(
            "unpaired",
            rank=entry.rank,
            call=called(run_index, entry),
            peer=peer,
            sent=sent > received,
            fewer=fewer,
            calls=len(side),
            more=more,
        ),
        culprit=run_index.culprit(odd) if odd else None,
        position=run_index.position(odd or entry),
        why=why,
    )
