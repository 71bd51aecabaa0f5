"""Plants a random fault at a random record of a healthy run, uniformly over the records of all actors.

The kinds are the framework's faults: skip, repeat, a changed count, dtype, op or root, die, raise, hang. If the record
cannot have a fault of the drawn kind, another kind that it can have replaces it.
"""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from dpsim.contract.ops import (
    COLLECTIVE_ROOT,
    COMMUNICATOR,
    COUNT,
    DTYPE,
    KIND,
    OP,
    ORDINAL,
    SITE,
    STEP,
    THREAD,
    RawRecord,
)
from dpsim.contract.world import At, Delay, Fault, Run, World

CALLS = ("collective", "transfer")
STOPPING = ("die", "raise", "hang")
CHANGES = ("skip", "repeat", "count", "dtype", "op", "root", "die")
STOPPED_AT = frozenset({"collective", "transfer", "launch", "alloc", "read", "post", "take"})
DELAYED = frozenset({"collective", "transfer", "launch", "post", "read", "take", "store"})


class Planted(NamedTuple):
    """A fault, its kind, and the record of the healthy run at which it applies."""

    fault: Fault
    kind: str
    raw: RawRecord


def plant(random: Random, world: World, healthy: Run) -> Planted | None:
    """Returns one fault, or None if the drawn record can have no fault of its kind."""
    shared = {spec.name for spec in world.communicators if len(spec.ranks) > 1}
    actors = [rank for rank, own in enumerate(healthy.journals) if any(raw[KIND] in (*CALLS, "post") for raw in own)]
    rank = random.choice(actors)
    journal = healthy.journals[rank]
    calls = [raw for raw in journal if raw[KIND] in CALLS and raw[COMMUNICATOR] in shared]
    kind = random.choice(CHANGES if calls else STOPPING)
    raw = random.choice(calls) if calls else journal[0]
    if calls:
        kind = _suited(random, kind, raw)
    if kind in STOPPING:
        raw = random.choice([one for one in journal if one[KIND] in STOPPED_AT])
    change = _change(random, world, kind, raw)
    if change is None:
        return None
    at = At(raw[SITE], raw[ORDINAL], thread=raw[THREAD])
    name: Any = "alter" if change else kind
    return Planted(Fault(name, rank, at, change), kind, raw)


def _suited(random: Random, kind: str, raw: RawRecord) -> str:
    """Returns the kind, or another one that the call can have."""
    if raw[KIND] == "transfer":
        return "count" if kind in ("op", "root") else kind
    if raw[OP] == "barrier" and kind in ("count", "dtype", "op", "root"):
        return random.choice(("skip", "repeat"))
    return "skip" if kind == "root" and raw[COLLECTIVE_ROOT] is None else kind


def _change(random: Random, world: World, kind: str, raw: RawRecord) -> dict[str, Any] | None:
    """Returns the changed field of an altered call, or {} for other kinds.

    Returns None if the field has no other legal value.
    """
    if kind == "count":
        return {"count": raw[COUNT] + 1 if random.random() < 0.5 or raw[COUNT] < 2 else raw[COUNT] - 1}
    if kind == "dtype":
        return {"dtype": "int64" if raw[DTYPE] != "int64" else "int32"}
    if kind == "op":
        return {"op": "broadcast" if raw[OP] != "broadcast" else "all_reduce"}
    if kind == "root":
        spec = next(spec for spec in world.communicators if spec.name == raw[COMMUNICATOR])
        others = [member for member in spec.ranks if member != raw[COLLECTIVE_ROOT]]
        return {"root": random.choice(others)} if others else None
    return {}


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


def step_of(planted: Planted) -> int:
    """Returns the step of the record at which the fault applies."""
    return int(planted.raw[STEP])
