"""Communicators that ranks make during a run: their names, and the ones of a run.

    specs_of("experts", (0, 1), device=False)       # experts[0,1]
    specs_of("experts", (0, 1), device=True)        # experts[0,1].host, and for devices experts[0,1]
    with_made(world, run.journals)                  # the world with all that its ranks made

Two groups of one name are two communicators if their members differ, or if only one has a device communicator. So ranks
that mean different groups do not meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from dpsim.contract.ops import GROUP_DEVICE, GROUP_KIND, GROUP_RANKS, KIND, RawRecord
from dpsim.contract.world import CommunicatorSpec, World

GroupSpecs: TypeAlias = tuple[CommunicatorSpec, ...]
"""The host communicator of a group, and the device communicator if it has one."""


def specs_of(name: str, ranks: tuple[int, ...], device: bool) -> GroupSpecs:
    """The communicators of a group."""
    called = f"{name}[{','.join(map(str, ranks))}]"
    if not device:
        return (CommunicatorSpec(name, called, "host", ranks),)
    return CommunicatorSpec(name, f"{called}.host", "host", ranks), CommunicatorSpec(name, called, "device", ranks)


def made_in(journals: Iterable[Sequence[RawRecord]]) -> list[CommunicatorSpec]:
    """The communicators that the ranks of a run made, each once."""
    groups = {
        (raw[GROUP_KIND], tuple(raw[GROUP_RANKS]), raw[GROUP_DEVICE]): None
        for journal in journals
        for raw in journal
        if raw[KIND] == "group"
    }
    return list(dict.fromkeys(spec for group in groups for spec in specs_of(*group)))


def with_made(world: World, journals: Iterable[Sequence[RawRecord]]) -> World:
    """The world with the communicators that its ranks made."""
    made = made_in(journals)
    return replace(world, communicators=(*world.communicators, *made)) if made else world
