"""Blocked before: a rank that is blocked before a call has not left this call out.

    rank 1   hear   all            the order of a step: rank 0 is blocked in hear, and all comes behind hear
    rank 2   tell   all
    rank 0   hear                  ->   no culprit, "rank 0 did not reach all"

A majority made the call, but this proves nothing against a rank that waits for one of them. Other ranks and steps show
the order of the two ops. If the call comes first there, the rank left it out, and stays the culprit.
"""

from __future__ import annotations

from dataclasses import replace

from dpsim.checks.blame.chain import ActorState, chain, text_of
from dpsim.checks.blame.debtors import debtors, only_itself, wait_of
from dpsim.checks.finding import Finding, also, each, matches, not_reached
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.kinds import MEETS
from dpsim.contract.ops import KIND, SITE, STEP, THREAD, RawRecord
from dpsim.contract.words import ranks_text

MISSING = ("HANG:COLLECTIVE:MISSING_RANK", "HANG:P2P")


def not_left_out(run_index: RunIndex, findings: list[Finding]) -> list[Finding]:
    """Returns the findings. A missing call names no culprit if the rank is blocked in an op before this call."""
    if not any(_open(one) for one in findings):
        return findings
    states = chain(run_index)
    found = []
    for one in findings:
        state = states.get(one.culprit.rank) if one.culprit is not None and _open(one) else None
        blocked = state.since if state is not None and state.state == "waits" else None
        if state is not None and blocked is not None and _before(run_index, blocked, one):
            why = f"rank {state.actor} {text_of(state)}, before it reaches this call{_owed(run_index, state)}"
            message = also(*map(not_reached, each(one.message)), why)
            one = replace(one, message=message, culprit=None, ground=(), why=why)
        found.append(one)
    return found


def _owed(run_index: RunIndex, state: ActorState) -> str:
    wait = wait_of(state)
    owing = () if wait is None or only_itself(run_index, wait) else debtors(run_index, wait, state.waits_for)
    return "" if wait is None or not owing else f"; {ranks_text(owing)} may owe it {wait.what}"


def _open(finding: Finding) -> bool:
    return finding.culprit is not None and any(matches(finding.klass, one) for one in MISSING)


def _before(run_index: RunIndex, blocked: Entry, finding: Finding) -> bool:
    """Returns whether the op in which a rank is blocked comes before the call that it did not make."""
    assert finding.culprit is not None
    if (blocked.step, blocked.rank) != (finding.culprit.step, finding.culprit.rank):
        return blocked.step < finding.culprit.step
    return comes_before(run_index, blocked, finding.culprit.site) is True


def comes_before(run_index: RunIndex, entry: Entry, site: str) -> bool | None:
    """Returns whether ops of the kind and site of `entry` come before the calls at `site`, on the same thread.

    All other steps with both have to agree; None if they do not, or if there are none. None as well if the step of
    `entry` has more of its ops than any of these steps, because `entry` may be one too many.
    """
    found, most = set[bool | None](), 0
    for rank, journal in enumerate(run_index.run.journals):
        rows: dict[int, tuple[list[int], list[int]]] = {}
        for at, raw in enumerate(journal):
            if raw[THREAD] == entry.raw[THREAD] and (rank, raw[STEP]) != (entry.rank, entry.step):
                places = rows.setdefault(raw[STEP], ([], []))
                if _alike(raw, entry.raw):
                    places[0].append(at)
                elif _calls(raw, site):
                    places[1].append(at)
        both = [places for places in rows.values() if all(places)]
        found |= {_first(*places) for places in both}
        most = max([most, *(len(ops) for ops, _ in both)])
    own = run_index.run.journals[entry.rank]
    mine = sum(_alike(raw, entry.raw) and raw[STEP] == entry.step for raw in own)
    return found.pop() if len(found) == 1 and mine <= most else None


def made(run_index: RunIndex, rank: int, step: int, site: str) -> bool:
    """Returns whether a rank made a call at a site in a step."""
    return any(raw[STEP] == step and _calls(raw, site) for raw in run_index.run.journals[rank])


def _calls(raw: RawRecord, site: str) -> bool:
    return raw[KIND] in MEETS and bool(raw[SITE] == site)


def _alike(raw: RawRecord, own: RawRecord) -> bool:
    return (raw[KIND], raw[SITE]) == (own[KIND], own[SITE])


def _first(one: list[int], other: list[int]) -> bool | None:
    """Returns whether the first list ends before the second begins; None if they overlap."""
    return True if one[-1] < other[0] else False if other[-1] < one[0] else None
