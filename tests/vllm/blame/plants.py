"""Plants a random fault at a random record of a healthy run, uniformly over the records of all actors.

The kinds are the framework's faults: skip, repeat, a changed count, dtype, op or root, die, raise, hang. If the record
cannot have a fault of the drawn kind, another kind that it can have replaces it.
"""

from __future__ import annotations

from random import Random
from typing import Any

from dpsim.contract.ops import (
    COLLECTIVE_ROOT,
    COMMUNICATOR,
    KIND,
    OP,
    ORDINAL,
    SITE,
    THREAD,
    RawRecord,
)
from dpsim.contract.world import At, Fault, Run, World
from tests.blame.plants import STOPPING, Planted, changed

CALLS = ("collective", "transfer")
CHANGES = ("skip", "repeat", "count", "dtype", "op", "root", "die")
STOPPED_AT = frozenset({"collective", "transfer", "launch", "alloc", "read", "post", "take"})


def plant(random: Random, world: World, healthy: Run) -> Planted[Fault] | None:
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
    """Returns the changed field of an altered call, or {} for other kinds; None if it has no other legal value."""
    return changed(random, world, kind, raw) if kind in ("count", "dtype", "op", "root") else {}
