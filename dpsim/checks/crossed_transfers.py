"""Crossed transfers: each rank of a cycle waits in a transfer, and has not issued the transfer that another rank needs.

    rank 0   send to 1   recv from 1
    rank 1   send to 0   recv from 0        ->   HANG:P2P:CROSSED_SENDS

A send may complete before the peer receives, or only then. This depends on the device and the size. So this program
hangs on some devices only. If all ranks receive first, the program hangs everywhere:

    rank 0   recv from 1   send to 1
    rank 1   recv from 0   send to 0        ->   HANG:P2P:CROSSED_RECVS

A cycle with at least one send has the first class. On a device, the transfers of a rank on one communicator run one
after another, on whatever streams. A host that awaits its send before it issues its receive makes the same mistake.

If all ranks of the cycle wait at one source line, the culprit is this line on all of them. Otherwise there is no
culprit, because any of these ranks could swap its two calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dpsim.checks.finding import Finding
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.checks.running_ops import Key, RunningOps, entry_of
from dpsim.checks.stuck import Stuck
from dpsim.contract.ops import KIND, OP, Transfer
from dpsim.contract.words import counted, ranks_text

FEW = 8

OTHER = {"send": "receive", "recv": "send"}


class Crossing(NamedTuple):
    """The transfer in which a rank waits, and the later one that a peer needs. None if the rank has not issued that
    one.
    """

    within: Entry
    before: Entry | None


def on_streams(run_index: RunIndex, running: RunningOps, cycle: Sequence[Key]) -> Finding:
    """Returns the finding for a cycle of transfers on devices. Each transfer in `cycle` waits for the next, the last
    one for the first.
    """
    ranks: list[Crossing] = []
    for key, after in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        for rank in (rank for rank, other in running.behind[key].items() if other == after):
            within = entry_of(run_index, after, rank)
            assert within is not None
            ranks.append(Crossing(within, entry_of(run_index, key, rank)))
    communicators = {transfer(entry).communicator for own in ranks for entry in own if entry is not None}
    group = "issue both as one group (`coalesced`), or " * (len(communicators) == 1)
    return _finding(run_index, ranks, group)


def of_hosts(run_index: RunIndex, waits: Mapping[int, Stuck], path: Sequence[int], details: Sequence[str]) -> Finding:
    """Returns the finding for hosts that await their sends in a cycle, and have not issued their receives."""
    ranks = [Crossing(waits[rank].joined[rank], None) for rank in path[:-1]]
    return _finding(run_index, ranks, "begin both before you await one, or ", details)


def _finding(run_index: RunIndex, ranks: Sequence[Crossing], cure: str, details: Sequence[str] = ()) -> Finding:
    first = min(range(len(ranks)), key=lambda at: ranks[at].within.rank)
    ranks = [*ranks[first:], *ranks[:first]]
    within = [own.within for own in ranks]
    sends = any(entry.raw[OP] == "send" for entry in within)
    turned = OTHER["send" if sends else "recv"]
    kind, issued = "send" if sends else "receive", all(own.before is not None for own in ranks)
    then = (
        f", before the {turned} for which another one waits"
        if issued
        else f" to another one, and none reaches a {turned}"
    )
    lines = [_line(own) for own in ranks[:FEW]]
    more = len(ranks) - len(lines)
    return Finding(
        check="deadlock",
        klass="HANG:P2P:CROSSED_SENDS" if sends else "HANG:P2P:CROSSED_RECVS",
        message=f"each of {ranks_text(entry.rank for entry in within)} is blocked in a {kind}{then}",
        culprit=run_index.one_line(within),
        position=max(map(run_index.position, (entry for own in ranks for entry in own if entry is not None))),
        details=(
            *lines,
            *([f"and {counted(more, 'more rank')} in a ring"] if more else []),
            f"to let them pass: {cure}let one of these ranks {turned} first",
            *details,
        ),
    )


def _line(own: Crossing) -> str:
    before = "" if own.before is None else f", before its {_way(own.before)}"
    return f"rank {own.within.rank} blocks in its {_way(own.within)}{before}"


def _way(entry: Entry) -> str:
    record = transfer(entry)
    way = "send to" if record.op == "send" else "recv from"
    return f"{way} rank {record.peer} ({record.site} on {record.communicator} #{record.seq}, {record.where})"


def transfer(entry: Entry) -> Transfer:
    record = entry.record
    assert isinstance(record, Transfer), entry.raw[KIND]
    return record
