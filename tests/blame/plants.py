"""Plants a random mistake at a random op of a healthy run: any call of any actor.

    planted = plant(random, drawn.world, healthy)      # Planted(fault, kind, raw)

The kinds are the framework's faults (skip, repeat, a changed count, dtype, op or root, die, raise, hang), and the other
mistakes of `tests.blame.bent`. `legal` lists the mistakes that a call can have, and one of them is drawn.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, Generic, NamedTuple, TypeVar

from dpsim.contract.kinds import MEETS
from dpsim.contract.ops import (
    COLLECTIVE_ROOT,
    COMMUNICATOR,
    COUNT,
    DTYPE,
    FLAG_HOW,
    GROUP_COMMUNICATOR,
    GROUP_DEVICE,
    GROUP_KIND,
    GROUP_RANKS,
    KIND,
    OP,
    ORDINAL,
    POST_MAILBOX,
    POST_TO,
    SITE,
    STEP,
    STORE_HOW,
    STORE_KEY,
    TAKE_MAILBOX,
    THREAD,
    TRANSFER_PEER,
    RawRecord,
)
from dpsim.contract.world import At, CommunicatorSpec, Delay, Fault, Run, World
from tests.blame.bent import Bend

STOPPING = ("die", "raise", "hang")
DELAYED = frozenset({"collective", "transfer", "launch", "post", "read", "take", "store"})
CALLS = frozenset({"collective", "transfer", "launch", "alloc", "read", "post", "take", "flag", "store", "receive_any"})
"""Kinds of record at which a mistake may be."""


Mistake = TypeVar("Mistake", Fault, Bend, Fault | Bend)


class Planted(NamedTuple, Generic[Mistake]):
    """A mistake, its kind, and the record of the healthy run at which it applies."""

    fault: Mistake
    kind: str
    raw: RawRecord


def plant(random: Random, world: World, healthy: Run) -> Planted[Fault | Bend] | None:
    """Returns one mistake; None if the drawn op can have none of the drawn kind."""
    world = replace(world, communicators=(*world.communicators, *made_groups(healthy)))
    alone = {spec.name for spec in world.communicators if len(spec.ranks) == 1}
    calls = [
        [raw for raw in own if raw[KIND] in CALLS and not (raw[KIND] in MEETS and raw[COMMUNICATOR] in alone)]
        for own in healthy.journals
    ]
    rank = random.choice([rank for rank, own in enumerate(calls) if own])
    raw = random.choice(calls[rank])
    kind = random.choice(legal(world, rank, raw))
    at = At(raw[SITE], raw[ORDINAL], thread=raw[THREAD])
    if kind in ("count", "dtype", "op", "root"):
        change = changed(random, world, kind, raw)
        return None if change is None else Planted(Fault("alter", rank, at, change), kind, raw)
    if kind in ("skip", "repeat", *STOPPING):
        name: Any = kind
        return Planted(Fault(name, rank, at), kind, raw)
    bent = _bent(random, world, healthy, kind, rank, raw)
    return None if bent is None else Planted(Bend(kind, rank, at, bent), kind, raw)


def legal(world: World, rank: int, raw: RawRecord) -> list[str]:
    """Returns the kinds of mistake that the call of this rank can have. A barrier is on no other group, because records
    do not tell it from the calls that make a group and leave one.
    """
    kind, found = raw[KIND], list(STOPPING)
    if kind == "collective":
        found += ["skip", "repeat"]
        found += ["count", "dtype", "op"] * (raw[OP] != "barrier") + ["root"] * (raw[COLLECTIVE_ROOT] is not None)
        found += ["group"] * (raw[COLLECTIVE_ROOT] is None and raw[OP] != "barrier" and bool(_others(world, rank, raw)))
    elif kind == "transfer":
        found += ["skip", "repeat", "count", "dtype"]
        found += ["peer"] * (len(spec_of(world, raw).ranks) > 2)
    elif kind == "post":
        found += ["lost", "twice", "receiver", "mailbox"]
    elif kind == "store":
        found += ["key"] * bool(raw[STORE_KEY]) + ["lost"] * (raw[STORE_HOW] == "set")
    elif kind == "flag":
        found += ["lost"] * (raw[FLAG_HOW] == "set")
    return found


def made_groups(run: Run) -> list[CommunicatorSpec]:
    """Returns the communicators that the ranks made during the run, once each."""
    made = {}
    for raw in (raw for own in run.journals for raw in own if raw[KIND] == "group"):
        name, kind, members = raw[GROUP_COMMUNICATOR], raw[GROUP_KIND], raw[GROUP_RANKS]
        if raw[GROUP_DEVICE]:
            made[name] = CommunicatorSpec(kind, name, "device", members)
            name = f"{name}.host"
        made[name] = CommunicatorSpec(kind, name, "host", members)
    return [*made.values()]


def spec_of(world: World, raw: RawRecord) -> CommunicatorSpec:
    """Returns the communicator of a collective or transfer."""
    return next(spec for spec in world.communicators if spec.name == raw[COMMUNICATOR])


def _others(world: World, rank: int, raw: RawRecord) -> list[CommunicatorSpec]:
    """Returns the other communicators of this rank in the domain of the call."""
    own = spec_of(world, raw)
    return [one for one in world.communicators if one != own and one.domain == own.domain and rank in one.ranks]


def changed(random: Random, world: World, kind: str, raw: RawRecord) -> dict[str, Any] | None:
    """Returns the changed field of an altered call; None if the field has no other legal value."""
    if kind == "count":
        return {"count": raw[COUNT] + 1 if random.random() < 0.5 or raw[COUNT] < 2 else raw[COUNT] - 1}
    if kind == "dtype":
        return {"dtype": "int64" if raw[DTYPE] != "int64" else "int32"}
    if kind == "op":
        return {"op": "broadcast" if raw[OP] != "broadcast" else "all_reduce"}
    others = [member for member in spec_of(world, raw).ranks if member != raw[COLLECTIVE_ROOT]]
    return {"root": random.choice(others)} if others else None


def _bent(random: Random, world: World, healthy: Run, kind: str, rank: int, raw: RawRecord) -> dict[str, Any] | None:
    """Returns the argument that differs, with its other value; None if the run has no other value."""
    if kind in ("lost", "twice"):
        return {}
    values: set[Any]
    if kind == "group":
        name, values = "kind", {one.kind for one in _others(world, rank, raw)}
    elif kind == "peer":
        name, values = (
            "to" if raw[OP] == "send" else "source",
            {*spec_of(world, raw).ranks} - {rank, raw[TRANSFER_PEER]},
        )
    elif kind == "receiver":
        name, values = "to", {*range(world.actors)} - {rank, raw[POST_TO]}
    else:
        name, at, known = ("mailbox", POST_MAILBOX, _boxes) if kind == "mailbox" else ("key", STORE_KEY, _keys)
        values = known(healthy) - {raw[at]} or {f"{raw[at]}.old"}
    return {name: random.choice(sorted(values))} if values else None


def _boxes(run: Run) -> set[str]:
    return {raw[TAKE_MAILBOX] for own in run.journals for raw in own if raw[KIND] == "take"}


def _keys(run: Run) -> set[str]:
    return {raw[STORE_KEY] for own in run.journals for raw in own if raw[KIND] == "store" and raw[STORE_KEY]}


def slow(random: Random, world: World, healthy: Run) -> tuple[Delay, ...]:
    """Returns delays that a healthy protocol has to tolerate: some actors start late, and up to three ops are late."""
    places = [
        (rank, At(raw[SITE], raw[ORDINAL], thread=raw[THREAD]))
        for rank, own in enumerate(healthy.journals)
        for raw in own
        if raw[KIND] in DELAYED
    ]
    late = [
        Delay(rank, At(), random.choice((10**3, 10**6, 10**9))) for rank in range(world.actors) if random.random() < 0.5
    ]
    ops = random.sample(places, min(len(places), 3))
    return (*late, *(Delay(rank, at, random.choice((10**4, 10**6, 10**8))) for rank, at in ops))


def step_of(planted: Planted[Any]) -> int:
    """Returns the step of the record at which the mistake applies."""
    return int(planted.raw[STEP])
