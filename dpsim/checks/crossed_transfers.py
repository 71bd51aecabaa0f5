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

from dpsim.checks.finding import Fact, Finding, Part, fact
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.checks.running_ops import Key, RunningOps, entry_of
from dpsim.checks.stuck import Stuck
from dpsim.contract.ops import KIND, OP, Transfer

FEW = 8


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
    group = fact("group_both") if len(communicators) == 1 else None
    return _finding(run_index, ranks, group)


def of_hosts(run_index: RunIndex, waits: Mapping[int, Stuck], path: Sequence[int], details: Sequence[Part]) -> Finding:
    """Returns the finding for hosts that await their sends in a cycle, and have not issued their receives."""
    ranks = [Crossing(waits[rank].joined[rank], None) for rank in path[:-1]]
    return _finding(run_index, ranks, fact("begin_both"), details)


def _finding(
    run_index: RunIndex, ranks: Sequence[Crossing], cure: Fact | None, details: Sequence[Part] = ()
) -> Finding:
    first = min(range(len(ranks)), key=lambda at: ranks[at].within.rank)
    ranks = [*ranks[first:], *ranks[:first]]
    within = [own.within for own in ranks]
    sends = any(entry.raw[OP] == "send" for entry in within)
    issued, more = all(own.before is not None for own in ranks), len(ranks) - FEW
    return Finding(
        check="deadlock",
        klass="HANG:P2P:CROSSED_SENDS" if sends else "HANG:P2P:CROSSED_RECVS",
        message=fact("crossed", ranks=tuple(entry.rank for entry in within), sends=sends, issued=issued),
        culprit=run_index.one_line(within),
        position=max(map(run_index.position, (entry for own in ranks for entry in own if entry is not None))),
        details=(
            *map(_blocks, ranks[:FEW]),
            *([fact("more_in_ring", number=more)] if more > 0 else []),
            fact("to_let_pass", cure=fact("turn_one", sends=sends, other=cure)),
            *details,
        ),
    )


def _blocks(own: Crossing) -> Fact:
    before = None if own.before is None else _way(own.before)
    return fact("blocks_in_transfer", rank=own.within.rank, within=_way(own.within), before=before)


def _way(entry: Entry) -> Fact:
    record = transfer(entry)
    return fact("transfer", call=record, sends=record.op == "send")


def transfer(entry: Entry) -> Transfer:
    record = entry.record
    assert isinstance(record, Transfer), entry.raw[KIND]
    return record
