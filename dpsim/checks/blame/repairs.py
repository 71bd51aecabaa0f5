"""Repairs: the single changes of the accused actor's calls with which a run may hold.

    repairs(world, run, finding)    # [Fault("insert", 1, At("dp.read", 3), {"op": "all_reduce", ...}), ...]

A repair makes one call that the actor left out, leaves one out that it made, or changes an argument of one to that of a
peer. The most likely ones come first. The fields of a call to insert are those of the peers' calls in this step; its
stream and peer are those of the actor's own calls at the site in other steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from dpsim.checks.finding import Culprit, Finding
from dpsim.contract.collectives import COLLECTIVES
from dpsim.contract.kinds import MEETS, NAMED
from dpsim.contract.ops import (
    COLLECTIVE_SIZES,
    COMMUNICATOR,
    KIND,
    OP,
    ORDINAL,
    SEQ,
    SITE,
    STEP,
    THREAD,
    TRANSFER_PEER,
    RawRecord,
    as_record,
)
from dpsim.contract.world import At, Fault, Run, World

CHANGED = {"collective": ("op", "count", "dtype", "root"), "transfer": ("count", "dtype")}
"""The arguments of a call that a repair changes, by kind."""

REPAIRABLE = ("HANG", "MISMATCH", "LEFTOVER")
"""The families of findings that one call can explain."""


def repairs(world: World, run: Run, finding: Finding) -> list[Fault]:
    """Returns the repairs of the culprit's calls at its site and step, the most likely first."""
    culprit = finding.culprit
    if culprit is None or culprit.ranks or finding.klass.partition(":")[0] not in REPAIRABLE:
        return []
    own = [raw for raw in run.journals[culprit.rank] if _is_call(raw, culprit.site) and raw[STEP] == culprit.step]
    changes = [fault for raw in own for fault in _changes(run, culprit.rank, raw)]
    removals = [Fault("skip", culprit.rank, _at(raw)) for raw in reversed(own)]
    insertions = list(_insertions(world, run, culprit))
    missing = finding.klass.endswith("MISSING_RANK")
    return [*changes, *(insertions + removals if missing else removals + insertions)]


def of_partners(world: World, run: Run, finding: Finding) -> list[Finding]:
    """Returns the finding with each actor as its culprit that alone met the accused one in a call of this step, or
    would have met it.
    """
    culprit = finding.culprit
    assert culprit is not None, "a finding without a culprit has no partners"
    pairs = {spec.name for spec in world.communicators if len(spec.ranks) == 2}
    found = dict[int, Finding]()
    for like in _alike(world, run, culprit):
        if like[KIND] == "transfer" or like[COMMUNICATOR] in pairs:
            for other, met in _met(run, culprit.rank, like):
                if met[STEP] == culprit.step or met[SEQ] == like[SEQ]:
                    accused = Culprit.of(other, as_record(met))
                    found.setdefault(other, replace(finding, culprit=accused))
    return [*found.values()]


def _is_call(raw: RawRecord, site: str) -> bool:
    return raw[KIND] in MEETS and bool(raw[SITE] == site)


def _at(raw: RawRecord) -> At:
    return At(raw[SITE], raw[ORDINAL], thread=raw[THREAD])


def _meets(rank: int, raw: RawRecord, other: int, met: RawRecord) -> bool:
    """Whether two calls of two actors pair up, apart from their numbers."""
    if raw[KIND] != met[KIND] or raw[COMMUNICATOR] != met[COMMUNICATOR]:
        return False
    if raw[KIND] == "collective":
        return True
    return bool(raw[TRANSFER_PEER] == other and met[TRANSFER_PEER] == rank and raw[OP] != met[OP])


def _met(run: Run, rank: int, raw: RawRecord) -> Iterator[tuple[int, RawRecord]]:
    """Yields the calls of others that may pair up with this one, with their ranks."""
    for other, journal in enumerate(run.journals):
        if other != rank:
            yield from ((other, met) for met in journal if met[KIND] in MEETS and _meets(rank, raw, other, met))


def _changes(run: Run, rank: int, raw: RawRecord) -> list[Fault]:
    """Returns the changes of a call to the arguments of those that it met."""
    mine, found = as_record(raw), dict[Any, Fault]()
    for _, met in _met(run, rank, raw):
        theirs = as_record(met)
        fields = CHANGED[raw[KIND]] if met[SEQ] == raw[SEQ] else ()
        change = {field: getattr(theirs, field) for field in fields if getattr(mine, field) != getattr(theirs, field)}
        if change:
            found[tuple(change.items())] = Fault("alter", rank, _at(raw), change)
    return [*found.values()]


def _insertions(world: World, run: Run, culprit: Culprit) -> Iterator[Fault]:
    """Yields insertions of the culprit's call, at each place where it may have left it out."""
    rank, seen = culprit.rank, set[str]()
    for like in _alike(world, run, culprit):
        for call, number in _calls(world, run, culprit, like):
            for at in _places(run, culprit, like, number):
                fault = Fault("insert", rank, at, call)
                if repr(fault) not in seen:
                    seen.add(repr(fault))
                    yield fault


def _alike(world: World, run: Run, culprit: Culprit) -> list[RawRecord]:
    """Returns calls like the one that is missing: the actor's own at this site, one for each peer and communicator, of
    the nearest step; else those of its peers.
    """
    rank, groups = culprit.rank, {spec.name for spec in world.communicators if culprit.rank in spec.ranks}
    own = [raw for raw in run.journals[rank] if _is_call(raw, culprit.site)]
    theirs = [
        raw
        for journal in run.journals
        for raw in journal
        if _is_call(raw, culprit.site) and raw[KIND] == "collective" and raw[COMMUNICATOR] in groups
    ]
    found: dict[Any, RawRecord] = {}
    for raw in sorted(own or theirs, key=lambda raw: abs(raw[STEP] - culprit.step)):
        found.setdefault((raw[COMMUNICATOR], raw[OP], raw[KIND] == "transfer" and raw[TRANSFER_PEER]), raw)
    return [*found.values()]


def _calls(world: World, run: Run, culprit: Culprit, like: RawRecord) -> Iterator[tuple[dict[str, Any], int]]:
    """Yields the calls that the actor may have left out, with their numbers: those that peers made in this step."""
    record = as_record(like)
    kept = {name: getattr(record, name, None) for name in ("stream", "communicator", "peer")}
    for other, met in _met(run, culprit.rank, like):
        if met[STEP] != culprit.step or (like[KIND] == "collective" and met[OP] != like[OP]):
            continue
        theirs = as_record(met)
        call = {name: getattr(theirs, name, None) for name in ("op", "count", "dtype", "root", "reduce")}
        call |= kept | {"site": culprit.site, "step": culprit.step, "op": like[OP]}
        if met[KIND] == "collective":
            call["sizes"] = met[COLLECTIVE_SIZES]
            if met[COLLECTIVE_SIZES] and COLLECTIVES[met[OP]].pairwise:
                members = next(spec.ranks for spec in world.communicators if spec.name == met[COMMUNICATOR])
                call["sizes"] = _own_sizes(run, culprit.rank, members, met)
                call["count"] = sum(call["sizes"][: len(members)])
        yield call, met[SEQ]


def _own_sizes(run: Run, rank: int, members: Sequence[int], met: RawRecord) -> tuple[int, ...]:
    """Returns the sizes of an all_to_all that fit those of its peers: to each member, and then from each."""
    sent, received = dict.fromkeys(members, 0), dict.fromkeys(members, 0)
    for other in members:
        for raw in run.journals[other] if other != rank else ():
            if raw[KIND] == "collective" and raw[COMMUNICATOR : SEQ + 1] == met[COMMUNICATOR : SEQ + 1]:
                sizes, index = raw[COLLECTIVE_SIZES], members.index(rank)
                sent[other], received[other] = sizes[len(members) + index], sizes[index]
    return *sent.values(), *received.values()


def _places(run: Run, culprit: Culprit, like: RawRecord, number: int) -> list[At]:
    """Returns the ops before which the actor may have left out a call: the op that usually follows, the call that took
    its number, the next step, and its last op.
    """
    journal = run.journals[culprit.rank]
    own = [raw for raw in journal if raw[THREAD] == culprit.thread and raw[KIND] in NAMED]
    following = {after[SITE] for raw, after in zip(own, own[1:], strict=False) if raw[SITE] == culprit.site}
    usual = [raw for raw in own if raw[STEP] == culprit.step and raw[SITE] in following][:3]
    taken = [
        raw
        for raw in own
        if raw[KIND] == like[KIND]
        and raw[SEQ] == number
        and (raw[COMMUNICATOR], raw[OP]) == (like[COMMUNICATOR], like[OP])
        and (like[KIND] == "collective" or raw[TRANSFER_PEER] == like[TRANSFER_PEER])
    ]
    later = [raw for raw in own if raw[STEP] > culprit.step][:1]
    places = [_at(raw) for raw in (*taken, *usual, *later, *own[-1:])]
    if any(raw[KIND] == "finished" for raw in journal):
        places.append(At("end", 0, thread=culprit.thread))
    return [*dict.fromkeys(places)]
