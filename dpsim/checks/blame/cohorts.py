"""Cohorts: at start-up, finds the one rank whose ops differ from those of all other ranks (its cohort).

    rank 0   dp.unique_id  dp.one  dp.fill  dp.warm_up
    rank 1                 dp.one  dp.fill  dp.warm_up      rank 1 left out dp.unique_id; ranks 0, 2, 3 made it
    rank 2   dp.unique_id  dp.one  dp.fill  dp.warm_up
    rank 3   dp.unique_id  dp.one  dp.fill  dp.warm_up

Start-up has no steps that a check could compare. So this pass compares whole ranks: the sequence of their collectives,
transfers, kernels, allocations and reads. With two ranks there is no majority. The pass then blames a rank if it
continues after an op in a way that no rank does anywhere else. The other rank has to continue in the usual way.

The pass blames a rank only if three conditions hold. The ranks begin with at least six equal ops; one rank alone
differs; and the differing op is a collective. The pass then assigns this culprit to a hang.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from dpsim.checks.finding import Finding, Part, also, left_out, matches
from dpsim.checks.new_values import new_value
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.kinds import WORK
from dpsim.contract.ops import COMMUNICATOR, KIND, SITE, WHERE, Collective
from dpsim.contract.words import counted, ranks_text

LEAST = 6
"""The number of equal ops at the beginning from which on a difference between ranks is evidence."""

COMPARED = WORK | {"alloc"}

Token: TypeAlias = tuple[str, str]
"""The kind and the site of an op."""

Name: TypeAlias = Callable[[Entry], Token]

Rows: TypeAlias = Mapping[int, list[Entry]]
"""The compared ops of each rank, in order."""


class CohortParting(NamedTuple):
    """One rank that differs from the others.

    `own` is its op, and `other` is the op of the first of the ranks `others` at the same index. `again`: the rank
    repeated a call that the others made once; otherwise it left out their call. `new`: the rank, and no other,
    continues as no rank does elsewhere. `common` is the number of equal ops before.
    """

    own: Entry
    other: Entry
    others: tuple[int, ...]
    again: bool
    new: bool
    common: int

    @property
    def call(self) -> Entry:
        """Returns the call that the rank made too often or left out."""
        return self.own if self.again else self.other


def by_cohort(run_index: RunIndex, findings: list[Finding]) -> list[Finding]:
    """Returns the findings. If one rank differs from its cohort, the hang or the timeouts get this rank as
    the culprit.
    """
    if "blocked" not in run_index.run.ends or "died" in run_index.run.ends:
        return findings
    hangs = [one for one in findings if one.check in ("ledger", "deadlock") and matches(one.klass, "HANG:COLLECTIVE")]
    parting = _parting(run_index) if hangs else None
    if parting is None or not _fits(run_index, parting, hangs):
        return findings
    rest = [one for one in findings if not any(one is other for other in hangs)]
    details = tuple(dict.fromkeys(line for one in hangs for line in one.details))
    return [_finding(run_index, parting, min(one.position for one in hangs), details), *rest]


def _fits(run_index: RunIndex, parting: CohortParting, hangs: list[Finding]) -> bool:
    """Returns whether the hangs may follow from this call.

    They may if one of them is in the step of the call, and if none has better evidence against a rank.
    """
    pair = len(run_index.collectives[parting.call.raw[COMMUNICATOR]]) == 2 and len(parting.others) > 1
    known = parting.new or pair
    blamed = [one.culprit.rank for one in hangs if one.culprit is not None]
    here = any(one.position[0] == parting.call.step for one in hangs)
    return here and (known or not blamed) and {*blamed} != {parting.own.rank}


def _parting(run_index: RunIndex) -> CohortParting | None:
    """Returns the first op at which one rank differs from the others, if a collective was repeated or left
    out there.
    """
    rows = _rows(run_index)
    for at in range(max(map(len, rows.values()), default=0)):
        tokens = {rank: _token(row[at]) for rank, row in rows.items() if at < len(row)}
        if len({*tokens.values()}) > 1:
            return _at(run_index, rows, at, tokens) if at >= LEAST else None
    return None


def _rows(run_index: RunIndex) -> Rows:
    rows = {}
    for rank in range(run_index.world.size):
        journal = run_index.run.journals[rank]
        if rank not in run_index.threaded:
            rows[rank] = [Entry(rank, at, raw) for at, raw in enumerate(journal) if raw[KIND] in COMPARED]
    return rows


def _token(entry: Entry) -> Token:
    return entry.raw[KIND], entry.raw[SITE]


def _at(run_index: RunIndex, rows: Rows, at: int, tokens: Mapping[int, Token]) -> CohortParting | None:
    """Returns the rank that differs at index `at`. None if no single rank does, or if the op is not a collective."""
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
    known = len(tokens) > 2 or not new_value(run_index, own.step, {own.rank: own.at, other.rank: other.at})
    return parting if known and parting.call.raw[KIND] == "collective" else None


def _followers(rows: Rows, of: Name, at: int) -> dict[Token, set[Token]]:
    """Returns which ops follow each op, over all ranks and all indexes except `at`."""
    found: dict[Token, set[Token]] = {}
    for row in rows.values():
        names = [of(entry) for entry in row]
        for place, (first, second) in enumerate(pairwise(names), 1):
            if place != at:
                found.setdefault(first, set()).add(second)
    return found


def _is_new(row: Sequence[Entry], at: int, followers: Sequence[tuple[Name, Mapping[Token, set[Token]]]]) -> bool:
    """Returns whether the rank's op at `at` never follows its previous op elsewhere, although other ops do."""
    for of, found in followers:
        follow = found.get(of(row[at - 1]))
        if follow:
            return of(row[at]) not in follow
    return False


def _line(entry: Entry) -> Token:
    """Returns kind and source line of an op. One line may have several sites, for instance one for each group."""
    return entry.raw[KIND], entry.raw[WHERE] or entry.raw[SITE]


def _finding(
    run_index: RunIndex, parting: CohortParting, position: tuple[int, int], details: tuple[Part, ...]
) -> Finding:
    call, own = parting.call, parting.own
    record = call.record
    assert isinstance(record, Collective)
    what, others = f"{record.site} ({record.op} on {record.communicator})", ranks_text(parting.others)
    goes_on = f"{others} continued with {parting.other.raw[SITE]}"
    did = f"rank {own.rank} made {what} in step {record.step} once more; {goes_on}"
    missed = also(left_out((own.rank,), what, record.step), f"{others} made it")
    return Finding(
        check="ledger",
        klass=f"HANG:COLLECTIVE:{'EXTRA_CALL' if parting.again else 'MISSING_RANK'}",
        message=did if parting.again else missed,
        culprit=run_index.culprit(call, own.rank),
        position=position,
        details=details,
        ground=(f"{counted(parting.common, 'op')} of these ranks are equal before; then only rank {own.rank} differs",),
    )
