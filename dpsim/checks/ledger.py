"""Ledger: checks that all members of a group make the same collectives in the same steps (invariants I-ES-1, I-DP-2).

If a rank leaves out one collective, its next call silently pairs up with the skipped call of its peers, perhaps for an
hour. So the ledger does not compare the calls that paired up. It compares the calls of one **step**, a number that the
program sets. Within a step, the lists of (op, count, dtype, root, reduction, sizes) of all members must be equal. If a
member's list is shorter, the member may still be in this step. If it has moved on to the next, it left a call out.

    step         4           5           6
    rank 0   agree(16)   agree(16)   agree(16)
    rank 1   agree(16)       -       agree(16)

In this example, rank 1 left out agree in step 5, although the run hangs only at its end.

A rank may also hang *within* the step in which it left a call out, because its next collective is on another
communicator. Then the order of communicators in other steps shows that the rank is past the call (`usual_step`).

The ledger makes further comparisons. It compares the sites (names in the source) of equal calls, because two members
may swap two calls (`crosswise`). Sites also show at which call a difference began (`apart`). In an all_to_all, member i
has to send to j as many elements as j expects. The two sides of a transfer have to agree (`transfers`). The ledger
ignores calls that an abort of the communicator broke off (`given_up`).

The culprit follows from these rules, in this order:

1. A rank that did nothing in a step left out the step, even if most ranks did nothing.
2. A rank without a call is wrong if every earlier step has one on all ranks.
3. The majority is right. If its members received one result before, they may all be wrong (`agreed_result`).
4. The side that follows the pattern of the other steps is right (`usual_step`).

If no rule decides, the finding has no culprit. Its class is then a guess whether one call is missing or one too many.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from dpsim.checks import given_up, made_groups, transfers
from dpsim.checks.apart import Members, first_apart
from dpsim.checks.crosswise import crosswise
from dpsim.checks.finding import Fact, Finding, Part, also, fact, left_out
from dpsim.checks.run_index import SIGNATURE, Entry, RunIndex, Signature, by_step, call, first_difference, signatures
from dpsim.checks.sides import sides_of
from dpsim.checks.usual_step import UsualStep
from dpsim.contract.collectives import COLLECTIVES, UNKNOWN
from dpsim.contract.ops import CALL, COLLECTIVE_SIZES, GRAPH, KIND, OP, SITE, STEP, WHERE
from dpsim.contract.rules.replay_frame import replay_at


def check(run_index: RunIndex) -> list[Finding]:
    """Returns at most one finding for each communicator, and for each pair of ranks that transfer.

    Later differences of the same communicator follow from the first.
    """
    findings = transfers.unequal(run_index) + made_groups.unlike(run_index)
    apart = made_groups.apart(run_index)
    usual: UsualStep | None = None
    for communicator, members in run_index.collectives.items():
        members = given_up.without_broken_off(run_index, communicator, members)
        calls_alike, sites_alike = _alike(list(members.values()))
        if (calls_alike and sites_alike) or communicator in apart:
            continue
        finding = None
        if not calls_alike:
            rows = [
                [(entry.raw[STEP], *call) for entry, call in zip(entries, signatures(entries, index), strict=True)]
                for index, entries in enumerate(members.values())
            ]
            if first_difference(rows) is not None:
                usual = usual or UsualStep(run_index)
                finding = _first(run_index, communicator, members, usual)
            else:
                finding = _pieces(run_index, communicator, members)
        crossed = crosswise(run_index, communicator, members)
        if crossed is not None and (finding is None or crossed.position[0] < finding.position[0]):
            finding = crossed
        if finding is not None:
            findings.append(finding)
    return findings


def _alike(rows: list[list[Entry]]) -> tuple[bool, bool]:
    """Returns whether all members made equal calls without per-peer sizes, and whether they made them at equal sites.

    This fast test recognises the usual case.
    """
    first, sites_alike = rows[0], True
    if any(len(row) != len(first) for row in rows):
        return False, False
    for calls in zip(*rows, strict=True):
        raw = calls[0].raw
        if raw[COLLECTIVE_SIZES]:
            return False, False
        step, site, signature = raw[STEP], raw[SITE], raw[CALL]
        for _, _, other in calls:
            if other[STEP] != step or other[CALL] != signature:
                return False, False
            if other[SITE] != site:
                sites_alike = False
    return True, sites_alike


def _first(run_index: RunIndex, communicator: str, members: dict[int, list[Entry]], usual: UsualStep) -> Finding | None:
    steps = {rank: by_step(entries) for rank, entries in members.items()}
    for step in sorted({step for own in steps.values() for step in own}):
        here = {rank: own.get(step, []) for rank, own in steps.items()}
        calls = {rank: tuple(signatures(own, index)) for index, (rank, own) in enumerate(here.items())}
        longest = max(calls.values(), key=len)
        waiting = {
            rank
            for rank in calls
            if calls[rank] == longest[: len(calls[rank])] and not usual.done(rank, step, communicator)
        }
        judged = {rank: own for rank, own in calls.items() if rank not in waiting or own == longest}
        if len(set(judged.values())) > 1:
            return _blame(run_index, communicator, here, judged, usual, step)
    return None


def _pieces(run_index: RunIndex, communicator: str, members: dict[int, list[Entry]]) -> Finding | None:
    """Returns a finding for the first collective in which one member sends another a part of unexpected size."""
    ranks, size = list(members), len(members)
    for calls in zip(*members.values(), strict=False):
        rules = COLLECTIVES.get(calls[0].raw[OP], UNKNOWN)
        if not rules.pairwise or not any(entry.raw[COLLECTIVE_SIZES] for entry in calls):
            continue
        said = [
            (index, rules.sizes(raw[CALL], size))
            for index, (_, _, raw) in enumerate(calls)
            if len(raw[COLLECTIVE_SIZES]) in (0, 2 * size)
        ]
        wrong = [
            (i, j, mine.source[j], theirs.output[i])
            for i, mine in said
            for j, theirs in said
            if mine.source[j] != theirs.output[i]
        ]
        if wrong:
            return _unequal(run_index, communicator, ranks, calls, wrong)
    return None


def _unequal(
    run_index: RunIndex,
    communicator: str,
    ranks: list[int],
    calls: tuple[Entry, ...],
    wrong: list[tuple[int, int, int, int]],
) -> Finding:
    involved = [{i, j} for i, j, _, _ in wrong]
    common = set.intersection(*involved)
    odd = calls[min(common)] if len(common) == 1 else None
    entry = odd or calls[wrong[0][0]]
    parts = [
        fact("sends_elements", rank=ranks[i], count=goes, to=ranks[j], expected=comes) for i, j, goes, comes in wrong
    ]
    record = call(entry)
    return Finding(
        check="ledger",
        klass="MISMATCH:COLLECTIVE:SIZES",
        message=fact("unequal_parts", call=record, first=parts[0]),
        culprit=run_index.culprit(entry) if odd else None,
        position=run_index.position(entry),
        details=tuple(parts),
    )


def _blame(
    run_index: RunIndex,
    communicator: str,
    here: dict[int, list[Entry]],
    calls: dict[int, tuple[Signature, ...]],
    usual: UsualStep,
    step: int,
) -> Finding:
    majority, bad, why = sides_of(run_index, communicator, here, calls, usual, step)
    good = majority or [max(calls, key=lambda rank: len(calls[rank]))]
    culprit = bad[0] if bad else next(rank for rank in calls if calls[rank] != calls[good[0]])
    began = first_apart(
        Members(run_index.collectives[communicator]), step, here[culprit], [here[rank] for rank in good]
    )
    reference = began.theirs
    mine, theirs = calls[culprit], calls[good[0]]
    index = first_difference([mine, theirs])
    assert index is not None
    begin, apart = (index, "") if began.at is None or began.at > index else (began.at, began.text)
    groups: dict[tuple[str, ...], list[int]] = {}
    message: Part
    for rank in sorted(calls):
        groups.setdefault(_list(run_index, here[rank]) or (f"nothing on {communicator}",), []).append(rank)
    if len(mine) == len(theirs):
        field = next(name for name, a, b in zip(SIGNATURE, mine[index], theirs[index], strict=True) if a != b)
        klass, entry = f"MISMATCH:COLLECTIVE:{field.upper()}", here[culprit][begin]
        own, right = call(here[culprit][index]), call(reference[index])
        message = fact("called_otherwise", ranks=(*bad,), step=step, good=(*good,), own=own, right=right)
    elif len(mine) < len(theirs):
        klass, entry = "HANG:COLLECTIVE:MISSING_RANK", _own(run_index, communicator, culprit, reference, begin)
        what = f"{call(entry).site} ({call(entry).op} on {communicator})"
        site = call(reference[begin]).site
        made = "it" if site == call(entry).site else site
        replayed = _of_replay(run_index, reference[begin], culprit)
        message = also(left_out(bad, what, step), fact("made", ranks=(*good,), call=made, replayed=replayed))
    else:
        klass, entry = "HANG:COLLECTIVE:EXTRA_CALL", here[culprit][begin]
        site, op = call(entry).site, call(entry).op
        numbers = {"number": len(mine), "step": step, "good": (*good,), "usual": len(theirs)}
        if {call(other).site for other in here[culprit]} == {site}:
            message = fact("made_call_times", ranks=(*bad,), call=f"{site} ({op} on {communicator})", **numbers)
        else:
            message = fact("made_calls", ranks=(*bad,), communicator=communicator, **numbers)
            message = message if apart else also(message, fact("differ_from", site=site, op=op))
    if run_index.run.finished and klass.startswith("HANG"):
        klass = "MISMATCH:COLLECTIVE:STEP"
    if not bad:
        ways = tuple(fact("side", ranks=tuple(ranks), step=None, calls=calls) for calls, ranks in groups.items())
        sites = dict.fromkeys(call(own[begin]).site for own in (here[culprit], reference) if begin < len(own))
        message = fact("calls_differ", step=step, sites=(*sites,), ways=ways)
    return Finding(
        check="ledger",
        klass=klass,
        message=also(message, apart) if bad else message,
        culprit=replace(run_index.culprit(entry, culprit), step=step) if bad else None,
        position=run_index.position(reference[begin] if begin < len(reference) else here[culprit][begin]),
        details=tuple(fact("side", ranks=tuple(ranks), step=step, calls=calls) for calls, ranks in groups.items()),
        why=why,
    )


def _own(run_index: RunIndex, communicator: str, rank: int, reference: list[Entry], index: int) -> Entry:
    """Returns the call that a rank left out, at the rank's own site.

    The root of a broadcast may call at another site than its receivers. A step in which the rank made equally many
    calls shows its site. Otherwise the result is the call of its peer.
    """
    own, site = run_index.collectives[communicator][rank], call(reference[index]).site
    if all(call(entry).site != site for entry in own):
        for entries in by_step(own).values():
            if len(entries) == len(reference) and call(entries[index]).op == call(reference[index]).op:
                return entries[index]
    return reference[index]


def _of_replay(run_index: RunIndex, entry: Entry, rank: int) -> Fact | None:
    """Returns the graph replay that made a call, and whether the rank that left it out replayed this graph
    in the step.
    """
    at = replay_at(run_index.run.journals[entry.rank], entry.at)
    if at is None:
        return None
    step, graph = entry.step, run_index.run.journals[entry.rank][at][GRAPH]
    journal = run_index.run.journals[rank]
    own = dict.fromkeys(raw[GRAPH] for raw in journal if raw[KIND] == "replay" and raw[STEP] == step)
    missed = None if graph in own else fact("did_not_replay", rank=rank, graph=graph, others=(*own,))
    return fact("in_replay", replay=run_index.within(entry), missed=missed)


def _list(run_index: RunIndex, entries: list[Entry]) -> tuple[str, ...]:
    """Returns the calls of a step in words. Several equal calls are one entry. With replays, all calls are one."""
    parts = []
    for of, some in groupby(entries, run_index.within):
        calls = [_alike_calls(list(own)) for _, own in groupby(some, _kind_of_call)]
        parts.append((of, calls))
    if len(parts) == 1 and not parts[0][0]:
        return tuple(parts[0][1])
    return ("; ".join(f"{of}: {', '.join(calls)}" if of else ", ".join(calls) for of, calls in parts),) * bool(parts)


def _kind_of_call(entry: Entry) -> tuple[object, ...]:
    return entry.raw[WHERE], *entry.raw[CALL]


def _alike_calls(entries: list[Entry]) -> str:
    calls = [call(entry) for entry in entries]
    if len(calls) > 2:
        return f"{calls[0].describe()} to #{calls[-1].seq} at {calls[0].where}"
    return ", ".join(f"{one.describe()} at {one.where}" for one in calls)
