"""First use: finds hosts that block each other because each creates a communicator first with another peer.

NCCL creates a communicator when ranks use it for the first time. If the scenario models this (`World.lazy`), the host
waits in its first call until all members make theirs. For a send or receive outside a group, each pair of ranks has its
own communicator. So ranks may wait in a cycle:

    rank 0   send to 1   recv from 2
    rank 1   send to 2   recv from 0
    rank 2   send to 0   recv from 1        ->   HANG:HOST:FIRST_USE

Instead of a cycle, the ranks may form a chain. The last rank of the chain then waits for a later op of these ranks.

If all ranks of a cycle wait at one source line, the culprit is that line. Otherwise a cycle has no culprit. The culprit
of a chain is its first rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpsim.checks.finding import Fact, Finding, Part, fact
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.kinds import MEETS
from dpsim.contract.ops import COMMUNICATOR, KIND, STREAM, TRANSFER_GROUP, TRANSFER_PEER, RawRecord

FEW = 8


def absent(run_index: RunIndex, entry: Entry) -> tuple[int, ...]:
    """Returns the members that have not made their first call on this communicator. Empty if `entry` is no
    first use.
    """
    raw = entry.raw
    if not run_index.world.lazy or raw[KIND] not in MEETS or raw[STREAM] is None:
        return ()
    name, members = raw[COMMUNICATOR], _members(run_index, raw, entry.rank)
    return tuple(rank for rank in members if not _has_used(run_index, rank, name, members))


def _members(run_index: RunIndex, raw: RawRecord, rank: int) -> tuple[int, ...]:
    """Returns the ranks that a call's communicator connects: both ranks of a transfer outside a group, or
    all members.
    """
    if raw[KIND] == "transfer" and raw[TRANSFER_GROUP] is None:
        return min(rank, raw[TRANSFER_PEER]), max(rank, raw[TRANSFER_PEER])
    return run_index.communicator(raw[COMMUNICATOR]).ranks


def _has_used(run_index: RunIndex, rank: int, name: str, members: Sequence[int]) -> bool:
    return any(
        raw[KIND] in MEETS
        and raw[STREAM] is not None
        and raw[COMMUNICATOR] == name
        and _members(run_index, raw, rank) == members
        for raw in run_index.run.journals[rank]
    )


def where(run_index: RunIndex, entry: Entry) -> Fact:
    """Returns that a rank waits in a first use."""
    use = _first(run_index, entry, absent(run_index, entry))
    return fact("blocked_in_first_use", rank=entry.rank, use=use, call=entry.record)


def _first(run_index: RunIndex, entry: Entry, others: tuple[int, ...]) -> Fact:
    if len(_members(run_index, entry.raw, entry.rank)) == 2 and entry.raw[KIND] == "transfer":
        return fact("first_transfer", ranks=others)
    return fact("first_use", communicator=entry.raw[COMMUNICATOR], ranks=others)


def finding(run_index: RunIndex, blocked: Mapping[int, Entry], details: Sequence[Part]) -> Finding:
    """Returns the finding for ranks that each wait in a first use: their cycle, or else the longest chain.

    `blocked` maps each such rank to its call.
    """
    ways = [_way(run_index, blocked, rank) for rank in blocked]
    way = next((way for way in ways if way[0] == way[-1]), max(ways, key=len))
    ranks = [rank for rank in dict.fromkeys(way) if rank in blocked]
    entries = [blocked[rank] for rank in ranks]
    circle = way[0] == way[-1]
    return Finding(
        check="deadlock",
        klass="HANG:HOST:FIRST_USE",
        message=_message(run_index, entries, way),
        culprit=run_index.one_line(entries) if circle else run_index.culprit(entries[0]),
        position=min(map(run_index.position, entries)),
        details=(
            *(where(run_index, entry) for entry in entries[:FEW]),
            *([fact("more_ranks", number=len(entries) - FEW)] if len(entries) > FEW else []),
            *(where(run_index, entry) for rank, entry in blocked.items() if rank not in ranks),
            fact("to_let_pass", cure=_cure(entries, way)),
            *details,
        ),
    )


def _way(run_index: RunIndex, blocked: Mapping[int, Entry], start: int) -> list[int]:
    """Returns the path from rank `start` along the first absent member of each call.

    The path ends at a rank that waits in no first use. If it reaches a rank twice, only the cycle is returned.
    """
    way = [start]
    while way[-1] in blocked:
        following = absent(run_index, blocked[way[-1]])[0]
        if following in way:
            return [*way[way.index(following) :], following]
        way.append(following)
    return way


def _message(run_index: RunIndex, entries: Sequence[Entry], way: Sequence[int]) -> Fact:
    shown = entries[: FEW // 2]
    uses: list[Fact] = []
    for entry, following in zip(shown, way[1:], strict=False):
        same = bool(uses) and entry.raw[KIND] == shown[0].raw[KIND] == "transfer"
        uses.append(fact("first_with", ranks=(following,)) if same else _first(run_index, entry, (following,)))
    left = len(entries) - len(shown)
    return fact(
        "first_uses",
        rank=shown[0].rank,
        uses=tuple(uses),
        more=fact("and_so_on", number=left, rank=way[-1]) if left else None,
        end=None if way[0] == way[-1] else _end(run_index, way[-1]),
    )


def _end(run_index: RunIndex, rank: int) -> Part:
    last, end = run_index.last(rank), run_index.end(rank)
    if last is None or end != "blocked":
        return {"finished": fact("has_ended"), "blocked": fact("did_nothing")}.get(end, end)
    return fact("last_called", call=last.record)


def _cure(entries: Sequence[Entry], way: Sequence[int]) -> Fact:
    if way[0] != way[-1]:
        return fact("let_call_first", rank=way[-1])
    transfers = all(entry.raw[KIND] == "transfer" for entry in entries)
    return fact("group_transfers") if transfers else fact("one_order_at_start")
