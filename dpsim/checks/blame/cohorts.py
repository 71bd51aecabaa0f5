"""Cohorts: ranks that did the same so far, and the one that departs from them.

    rank 0   dp.unique_id  dp.one  dp.fill  dp.warm_up
    rank 1                 dp.one  dp.fill  dp.warm_up      rank 1 left out dp.unique_id; ranks 0, 2, 3 made it
    rank 2   dp.unique_id  dp.one  dp.fill  dp.warm_up
    rank 3   dp.unique_id  dp.one  dp.fill  dp.warm_up

A start has no steps to compare. So this pass compares ranks with one another, by their ops of groups and devices, in
order. Two ranks have no majority. Of two, the one departs that does there what neither does at another place, while the
other does what both always do.

A difference counts only in a call of a group in which ranks stand, after a common beginning, and if one rank departs
alone. A hang, or time-outs that passed, get this culprit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from dpsim.checks.blame.witnesses import gave_up
from dpsim.checks.finding import Finding, matches
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.ops import COMMUNICATOR, KIND, SITE, WHERE, Collective
from dpsim.contract.words import counted, ranks_text

LEAST = 6
"""The smallest number of common ops that makes a difference between ranks evidence."""

COMPARED = frozenset({"collective", "transfer", "launch", "alloc", "read"})

Token: TypeAlias = tuple[str, str]
"""Kind and site of an op."""

Name: TypeAlias = Callable[[Entry], Token]

Rows: TypeAlias = Mapping[int, list[Entry]]
"""The ops of each rank, in order."""


class CohortParting(NamedTuple):
    """One rank that departs from the others. `own`: its op there. `other`: the op of one of `others`. `again`: it
    repeated a call that the others made once; otherwise it left out theirs. `new`: only this rank does what no rank
    does at another place.
    """

    own: Entry
    other: Entry
    others: tuple[int, ...]
    again: bool
    new: bool
    common: int

    @property
    def call(self) -> Entry:
        """The call that the rank made too often, or left out."""
        return self.own if self.again else self.other


def by_cohort(run_index: RunIndex, findings: list[Finding]) -> list[Finding]:
    """The findings. If a rank that departs from its cohort causes a hang or time-outs, these get this culprit."""
    if "blocked" not in run_index.run.ends or "died" in run_index.run.ends:
        return findings
    hangs = [one for one in findings if one.check in ("ledger", "deadlock") and matches(one.klass, "HANG:COLLECTIVE")]
    shown = hangs or [one for one in findings if _of_witnesses(run_index, one)]
    parting = _parting(run_index) if shown else None
    if parting is None or not _fits(run_index, parting, hangs):
        return findings
    rest = [one for one in findings if not any(one is other for other in hangs)]
    details = tuple(dict.fromkeys(line for one in hangs for line in (*one.details, *_said(one))))
    return [_finding(run_index, parting, min(one.position for one in shown), details), *rest]


def _of_witnesses(run_index: RunIndex, finding: Finding) -> bool:
    culprit = finding.culprit
    if culprit is None or not matches(finding.klass, "CRASH"):
        return False
    return all(gave_up(run_index, actor) is not None for actor in culprit.ranks or (culprit.rank,))


def _fits(run_index: RunIndex, parting: CohortParting, hangs: list[Finding]) -> bool:
    """Whether hangs may be about this call. They are in its step, and none has better evidence against a rank."""
    pair = len(run_index.collectives[parting.call.raw[COMMUNICATOR]]) == 2 and len(parting.others) > 1
    known = parting.new or pair
    blamed = [one.culprit.rank for one in hangs if one.culprit is not None]
    here = not hangs or any(one.position[0] == parting.call.step for one in hangs)
    return here and (known or not blamed) and {*blamed} != {parting.own.rank}


def _said(finding: Finding) -> tuple[str, ...]:
    return (finding.message,) if finding.check == "deadlock" else ()


def _parting(run_index: RunIndex) -> CohortParting | None:
    """The first place at which one rank departs from the others, if that is in a call of a group."""
    rows = _rows(run_index)
    for at in range(max(map(len, rows.values()), default=0)):
        tokens = {rank: _token(row[at]) for rank, row in rows.items() if at < len(row)}
        if len({*tokens.values()}) > 1:
            return _at(run_index, rows, at, tokens) if at >= LEAST else None
    return None


def _rows(run_index: RunIndex) -> Rows:
    """The ops of ranks with one host thread."""
    rows = {}
    for rank in range(run_index.world.size):
        journal = run_index.run.journals[rank]
        if rank not in run_index.threaded:
            rows[rank] = [Entry(rank, at, raw) for at, raw in enumerate(journal) if raw[KIND] in COMPARED]
    return rows


def _token(entry: Entry) -> Token:
    return entry.raw[KIND], entry.raw[SITE]


def _at(run_index: RunIndex, rows: Rows, at: int, tokens: Mapping[int, Token]) -> CohortParting | None:
    """The rank that departs at a place; None if that is unclear, or the place is no call of a group."""
    followers = [(of, _followers(rows, of, at)) for of in (_token, _line)]
    new = {rank for rank in tokens if _is_new(rows[rank], at, followers)}
    alone = [rank for rank, token in tokens.items() if [*tokens.values()].count(token) == 1]
    odd = [rank for rank in alone if rank in new or (len(tokens) > 2 and new != {*tokens} - {rank})]
    if len(odd) != 1 or len({*tokens.values()}) != 2 or (len(tokens) == 2 and new != {*odd}):
        return None
    own = rows[odd[0]][at]
    others = tuple(rank for rank in tokens if rank != odd[0])
    other = rows[others[0]][at]
    again = _token(own) == _token(rows[odd[0]][at - 1])
    parting = CohortParting(own, other, others, again, new == {*odd}, at)
    return parting if parting.call.raw[KIND] == "collective" else None


def _followers(rows: Rows, of: Name, at: int) -> dict[Token, set[Token]]:
    """What comes after an op, in all rows and at all places but this one."""
    found: dict[Token, set[Token]] = {}
    for row in rows.values():
        names = [of(entry) for entry in row]
        for place, (first, second) in enumerate(pairwise(names), 1):
            if place != at:
                found.setdefault(first, set()).add(second)
    return found


def _is_new(row: Sequence[Entry], at: int, followers: Sequence[tuple[Name, Mapping[Token, set[Token]]]]) -> bool:
    """Whether a rank continues after its previous op as no rank does at another place, although others make that op,
    too.
    """
    for of, found in followers:
        follow = found.get(of(row[at - 1]))
        if follow:
            return of(row[at]) not in follow
    return False


def _line(entry: Entry) -> Token:
    """An op by its line, which may have several sites, for instance one for each group."""
    return entry.raw[KIND], entry.raw[WHERE] or entry.raw[SITE]


def _finding(
    run_index: RunIndex, parting: CohortParting, position: tuple[int, int], details: tuple[str, ...]
) -> Finding:
    call, own = parting.call, parting.own
    record = call.record
    assert isinstance(record, Collective)
    did = "made" if parting.again else "left out"
    once = " once more" if parting.again else ""
    others = ranks_text(parting.others)
    rest = f"{others} went on to {parting.other.raw[SITE]}" if parting.again else f"{others} made it"
    return Finding(
        check="ledger",
        klass=f"HANG:COLLECTIVE:{'EXTRA_CALL' if parting.again else 'MISSING_RANK'}",
        message=f"rank {own.rank} {did} {record.site} ({record.op} on {record.communicator}) in step {record.step}"
        f"{once}; {rest}",
        culprit=run_index.culprit(call, own.rank),
        position=position,
        details=details,
        ground=(f"{counted(parting.common, 'op')} of these ranks are the same before; rank {own.rank} parts alone",),
    )
