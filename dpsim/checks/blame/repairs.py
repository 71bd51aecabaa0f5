"""Repairs: the single changes of the accused actor's calls with which a run may hold.

    repairs(world, run, finding)    # [Fault("insert", 1, At("dp.read", 3), {"op": "all_reduce", ...}), ...]

A repair makes one call that the actor left out, leaves out one that it made, or takes arguments of a peer. It restores
what the actor does in other steps (`dpsim.checks.blame.restoring`). The most likely ones come first. A call to insert
has the fields of the peers' calls in this step. Its stream and peer are those of the actor's own calls at the site in
other steps. It comes before the op that follows the call at a peer.

In a call of two actors, a change of either one may help. `partners` accuses the other one, so that both are tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from dpsim.checks.blame.restoring import restores
from dpsim.checks.finding import Culprit, Finding
from dpsim.contract.collectives import COLLECTIVES
from dpsim.contract.kinds import MEETS, NAMED
from dpsim.contract.ops import (
    COLLECTIVE_SIZES,
    COMMUNICATOR,
    COUNT,
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

FOLLOWING = 4
"""The number of a peer's ops after its call among which a place for the call is looked for."""


class Missing(NamedTuple):
    """A call of a peer, which the actor may have left out. `call`: the fields of a call to insert. `far`: the distance
    from the first difference between the two lists of calls.
    """

    far: int
    call: dict[str, Any]
    peer: int
    met: RawRecord


def repairs(world: World, run: Run, finding: Finding) -> list[Fault]:
    """Returns the repairs of the culprit's calls at its site and step, the most likely first. None for an actor that
    died or raised, because its end explains a hang. After a wrong call, it may raise as a victim.
    """
    culprit = finding.culprit
    if culprit is None or culprit.ranks or finding.klass.partition(":")[0] not in REPAIRABLE:
        return []
    if run.ends[culprit.rank] in ("died", "raised") and finding.klass.startswith("HANG"):
        return []
    own = [raw for raw in run.journals[culprit.rank] if _is_call(raw, culprit.site) and raw[STEP] == culprit.step]
    changes = [fault for raw in own for fault in _changes(run, culprit.rank, raw)]
    removals = [Fault("skip", culprit.rank, _at(raw)) for raw in reversed(own)]
    insertions = _insertions(world, run, culprit)
    missing = finding.klass.endswith("MISSING_RANK")
    faults = [*changes, *(insertions + removals if missing else removals + insertions)]
    return [fault for fault in faults if restores(run, fault)]


def partners(world: World, run: Run, finding: Finding) -> list[Finding]:
    """Returns the finding with each partner as its culprit. A partner alone met the accused actor in a call of this
    step, or should have. It is accused at the same site, and at that of the call which it made there.
    """
    culprit = finding.culprit
    assert culprit is not None, "a finding without a culprit has no partners"
    pairs = {spec.name: spec.ranks for spec in world.communicators if len(spec.ranks) == 2}
    found = dict[tuple[int, str], Finding]()
    for like in _alike(world, run, culprit):
        if like[KIND] == "collective" and culprit.rank in (members := pairs.get(like[COMMUNICATOR], ())):
            [other] = (member for member in members if member != culprit.rank)
            accused = Culprit(other, culprit.step, culprit.site, culprit.where, thread=culprit.thread)
            found[other, culprit.site] = replace(finding, culprit=accused)
        if like[KIND] == "transfer" or like[COMMUNICATOR] in pairs:
            for other, met in _met(run, culprit.rank, like):
                if met[SEQ] == like[SEQ] or (met[STEP] == culprit.step and like[KIND] == "transfer"):
                    accused = Culprit.of(other, as_record(met))
                    found.setdefault((other, met[SITE]), replace(finding, culprit=accused))
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
        if raw[KIND] == "collective" and (raw[COLLECTIVE_SIZES] or met[COLLECTIVE_SIZES]):
            fields = tuple(field for field in fields if field != "count")  # each member brings its own number
        change = {field: getattr(theirs, field) for field in fields if getattr(mine, field) != getattr(theirs, field)}
        if change:
            found[tuple(change.items())] = Fault("alter", rank, _at(raw), change)
    return [*found.values()]


def _insertions(world: World, run: Run, culprit: Culprit) -> list[Fault]:
    """Returns insertions of the culprit's call, at each place where it may have left it out."""
    found = list[tuple[int, Fault]]()
    for like in _alike(world, run, culprit):
        for near, one in enumerate(sorted(_missing(world, run, culprit, like), key=lambda one: one.far)):
            places = enumerate(_places(run, culprit, like, one))
            found += [(near + late, Fault("insert", culprit.rank, at, one.call)) for late, at in places]
    return [*{repr(fault): fault for _, fault in sorted(found, key=lambda one: one[0])}.values()]


def _alike(world: World, run: Run, culprit: Culprit) -> list[RawRecord]:
    """Returns calls like the missing one: the actor's own at this site, else those of its peers. Each peer and
    communicator has one, of the nearest step.
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


def _missing(world: World, run: Run, culprit: Culprit, like: RawRecord) -> list[Missing]:
    """Returns the calls that the actor may have left out: different ones that peers made in this step."""
    kept = {name: getattr(as_record(like), name, None) for name in ("stream", "communicator", "peer")}
    kept |= {"site": culprit.site, "step": culprit.step, "op": like[OP]}
    mine = [raw for raw in run.journals[culprit.rank] if _is_like(raw, like)]
    found = dict[str, Missing]()
    for other in range(world.actors):
        theirs = [met for who, met in _met(run, culprit.rank, like) if who == other]
        same = (_sign(a) == _sign(b) for a, b in zip(mine, theirs, strict=False))
        first = next((index for index, equal in enumerate(same) if not equal), min(len(mine), len(theirs)))
        for index, met in enumerate(theirs):
            if met[STEP] == culprit.step and (like[KIND] == "transfer" or met[OP] == like[OP]):
                call = _fields(world, run, culprit.rank, met) | kept
                one = Missing(2 * abs(index - first) + (met[SITE] != culprit.site), call, other, met)
                if found.setdefault(repr(call), one).far > one.far:
                    found[repr(call)] = one
    return [*found.values()]


def _is_like(raw: RawRecord, like: RawRecord) -> bool:
    """Whether a call of the same actor has numbers in the same sequence."""
    if raw[KIND] != like[KIND] or raw[COMMUNICATOR] != like[COMMUNICATOR]:
        return False
    return like[KIND] == "collective" or bool(raw[OP] == like[OP] and raw[TRANSFER_PEER] == like[TRANSFER_PEER])


def _sign(raw: RawRecord) -> tuple[Any, ...]:
    """Returns what two calls that pair up usually share."""
    sized = raw[KIND] == "collective" and raw[COLLECTIVE_SIZES]
    return raw[STEP], None if sized else raw[COUNT], raw[SITE] if raw[KIND] == "collective" else None


def _fields(world: World, run: Run, rank: int, met: RawRecord) -> dict[str, Any]:
    """Returns the fields of a call that pairs up with that one."""
    theirs = as_record(met)
    call: dict[str, Any] = {name: getattr(theirs, name, None) for name in ("count", "dtype", "root", "reduce")}
    if met[KIND] == "collective":
        call["sizes"] = met[COLLECTIVE_SIZES]
        members = next((spec.ranks for spec in world.communicators if spec.name == met[COMMUNICATOR]), ())
        if met[COLLECTIVE_SIZES] and rank in members:
            index = members.index(rank)
            if COLLECTIVES[met[OP]].pairwise:
                call["sizes"] = _own_sizes(run, rank, members, met)
                call["count"] = sum(call["sizes"][: len(members)])
            elif met[OP] == "all_gather":
                call["count"] = met[COLLECTIVE_SIZES][index]
    return call


def _own_sizes(run: Run, rank: int, members: Sequence[int], met: RawRecord) -> tuple[int, ...]:
    """Returns the sizes of an all_to_all that fit those of its peers: to each member, and then from each."""
    sent, received = dict.fromkeys(members, 0), dict.fromkeys(members, 0)
    for other in members:
        for raw in run.journals[other] if other != rank else ():
            if raw[KIND] == "collective" and raw[COMMUNICATOR : SEQ + 1] == met[COMMUNICATOR : SEQ + 1]:
                sizes, index = raw[COLLECTIVE_SIZES], members.index(rank)
                sent[other], received[other] = sizes[len(members) + index], sizes[index]
    return *sent.values(), *received.values()


def _places(run: Run, culprit: Culprit, like: RawRecord, missing: Missing) -> list[At]:
    """Returns the ops before which the actor may have left out a call. First comes the op that follows it at the peer,
    then the call that took its number. The op that usually follows, the next step, and the last op are less likely.
    """
    journal = run.journals[culprit.rank]
    own = [raw for raw in journal if raw[THREAD] == culprit.thread and raw[KIND] in NAMED]
    taken = [raw for raw in own if _is_like(raw, like) and raw[SEQ] == missing.met[SEQ] and raw[OP] == like[OP]]
    following = {after[SITE] for raw, after in pairwise(own) if raw[SITE] == culprit.site}
    usual = [raw for raw in own if raw[STEP] == culprit.step and raw[SITE] in following][:3]
    later = [raw for raw in own if raw[STEP] > culprit.step][:1]
    places = [_at(raw) for raw in (*_as_at_the_peer(run, culprit, missing, own), *taken, *usual, *later, *own[-1:])]
    if any(raw[KIND] == "finished" for raw in journal):
        places.append(At("end", 0, thread=culprit.thread))
    return [*dict.fromkeys(places)]


def _as_at_the_peer(run: Run, culprit: Culprit, missing: Missing, own: Sequence[RawRecord]) -> Iterator[RawRecord]:
    """Yields the actor's op that corresponds to the one after the missing call at the peer, if there is one."""
    met = missing.met
    theirs = [
        raw
        for raw in run.journals[missing.peer]
        if raw[THREAD] == met[THREAD] and raw[KIND] in NAMED and raw[STEP] == met[STEP]
    ]
    mine = [raw for raw in own if raw[STEP] == culprit.step]
    begin = next(index for index, raw in enumerate(theirs) if raw is met) + 1
    for index, raw in enumerate(theirs[begin : begin + FOLLOWING], begin):
        number = sum(one[SITE] == raw[SITE] for one in theirs[:index]) - (raw[SITE] == culprit.site)
        same = [one for one in mine if one[SITE] == raw[SITE]]
        if 0 <= number < len(same):
            yield same[number]
            return
