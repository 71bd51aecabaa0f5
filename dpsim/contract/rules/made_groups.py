"""Communicators that ranks make during a run (`Rank.group`): their names, and those of a finished run.

    specs_of("experts", (0, 1), device=False)       # experts[0,1]
    specs_of("experts", (0, 1), device=True)        # experts[0,1].host, and for devices experts[0,1]
    with_made(world, run.journals)                  # the world with all that its ranks made

Two groups with one name are two communicators if their members differ, or if only one has a device communicator. So
ranks that mean different groups wait for each other without end, as on real hardware.
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
    """Returns the communicators of a group: for hosts, and with `device` also for devices."""
    called = f"{name}[{','.join(map(str, ranks))}]"
    if not device:
        return (CommunicatorSpec(name, called, "host", ranks),)
    return CommunicatorSpec(name, f"{called}.host", "host", ranks), CommunicatorSpec(name, called, "device", ranks)


def made_in(journals: Iterable[Sequence[RawRecord]]) -> list[CommunicatorSpec]:
    """Returns the communicators that the ranks of a run made, each once."""
    groups = {
        (raw[GROUP_KIND], tuple(raw[GROUP_RANKS]), raw[GROUP_DEVICE]): None
        for journal in journals
        for raw in journal
        if raw[KIND] == "group"
    }
    return list(dict.fromkeys(spec for group in groups for spec in specs_of(*group)))


def with_made(world: World, journals: Iterable[Sequence[RawRecord]]) -> World:
    """Returns the world with the communicators that its ranks made."""
    made = made_in(journals)
    return replace(world, communicators=(*world.communicators, *made)) if made else world
