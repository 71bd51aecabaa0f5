"""Made groups: finds members that create a group with different ranks than their peers. A part of the ledger.

    rank 0   group x of ranks 0, 1
    rank 1   group x of ranks 0, 1, 2       ->   MISMATCH:GROUP:RANKS

A rank lists the members of a group that it creates (`Rank.group`). All listed members must create the group with the
same ranks in the same order, and for the same devices. If they differ, they create different groups and wait for each
other in vain. If most members agree, the others are wrong.
"""

from __future__ import annotations

from collections import Counter

from dpsim.checks.finding import Finding, fact
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.ops import GROUP_COMMUNICATOR, GROUP_DEVICE, GROUP_KIND, GROUP_RANKS


def unlike(run_index: RunIndex) -> list[Finding]:
    """Returns one finding for each name that members use for different groups."""
    return [_finding(run_index, name, own) for name, own in _by_name(run_index).items() if _differ(own)]


def apart(run_index: RunIndex) -> set[str]:
    """Returns the communicators of groups that members create differently. The ledger skips them, because missing
    members follow from this mistake.
    """
    by_name = _by_name(run_index)
    return {entry.raw[GROUP_COMMUNICATOR] for own in by_name.values() if _differ(own) for entry in own.values()}


def _by_name(run_index: RunIndex) -> dict[str, dict[int, Entry]]:
    by_name: dict[str, dict[int, Entry]] = {}
    for entry in run_index.groups:
        by_name.setdefault(entry.raw[GROUP_KIND], {})[entry.rank] = entry
    return by_name


def _differ(own: dict[int, Entry]) -> bool:
    return any(
        rank in own and _shape(own[rank]) != _shape(entry) for entry in own.values() for rank in entry.raw[GROUP_RANKS]
    )


def _shape(entry: Entry) -> tuple[tuple[int, ...], bool]:
    return tuple(entry.raw[GROUP_RANKS]), entry.raw[GROUP_DEVICE]


def _finding(run_index: RunIndex, name: str, own: dict[int, Entry]) -> Finding:
    counts = Counter(map(_shape, own.values())).most_common()
    most = counts[0][0] if counts[0][1] > counts[1][1] else None
    odd = [entry for entry in own.values() if most is not None and _shape(entry) != most]
    first = min(odd or own.values(), key=lambda entry: (run_index.position(entry), entry.rank))
    made = []
    for shape, _ in counts:
        ranks = [rank for rank, entry in own.items() if _shape(entry) == shape]
        where = own[ranks[0]].record.where
        made.append(fact("made_group", ranks=tuple(ranks), members=shape[0], device=shape[1], where=where))
    return Finding(
        check="ledger",
        klass="MISMATCH:GROUP:RANKS",
        message=fact("unlike_groups", group=name, made=tuple(made)),
        culprit=run_index.culprit(first) if odd else None,
        position=run_index.position(first),
        details=tuple(made),
    )
