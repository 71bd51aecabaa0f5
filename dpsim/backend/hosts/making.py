"""How a rank makes a communicator during a run (`Rank.group`): checks and records.

    group = await rank.group("experts", (0, 1))         # waits until rank 1 has called it, too
    rank.host("experts")                                # the same communicator

A rank first records the ranks that it names. Then follows the group's first collective, a barrier, in which the members
meet. So if a member does not call it, the checks of collectives report it as missing there.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from sys import _getframe
from typing import Any, Protocol, TypeAlias

import numpy as np

from dpsim.backend.hosts.work import Outcome, Work
from dpsim.backend.journal.call_site import is_word
from dpsim.backend.journal.issue import Issue, plan
from dpsim.backend.journal.journal import Journal
from dpsim.backend.journal.plain import whole
from dpsim.contract.interface import DeviceCommunicator, HostCommunicator
from dpsim.contract.rules.made_groups import GroupSpecs, specs_of
from dpsim.contract.world import World

NOTHING = np.empty(0, np.int32)

Made: TypeAlias = tuple[HostCommunicator, DeviceCommunicator | None]


class Making(Protocol):
    """The methods of a rank that makes groups. `made`: the names of its groups."""

    rank: int
    journal: Journal
    world: World
    hosts: dict[str, HostCommunicator]
    devices: dict[str, DeviceCommunicator]
    made: set[str]

    def host(self, kind: str) -> HostCommunicator:
        """Returns the communicator of that kind."""

    def _make(self, specs: GroupSpecs, issues: list[Issue]) -> Outcome:
        """Meets the other members in a barrier."""


def make_group(rank: Making, name: str, ranks: Sequence[int], device: bool, site: str | None) -> GroupWork:
    """Carries out `Rank.group`, which the program calls."""
    site = site or f"{name}.group"
    members = _members(rank, name, ranks, device, site)
    specs = specs_of(name, members, device)
    journal, host = rank.journal, specs[0]
    journal.note_at("group", f"{site}.members", (host.name, name, device, members), _getframe(2))
    rank.made.add(name)
    issues = journal.collective(host.name, plan("barrier", 0, "int32"), None, site)
    return GroupWork(rank, name, rank._make(specs, issues))


def _members(rank: Making, name: str, ranks: Sequence[int], device: bool, site: str) -> tuple[int, ...]:
    if not is_word(name):
        raise ValueError(f"{site}: the group {name!r}: a name is printable ASCII without spaces, as experts.4")
    if name in rank.made or name in rank.hosts or name in rank.devices:
        raise ValueError(f"{site}: rank {rank.rank} has a communicator {name!r} already; give each group another name")
    most = rank.world.size if device else rank.world.actors
    members = tuple(whole(one, "a member", site, 0) for one in ranks)
    if rank.rank not in members:
        raise ValueError(f"{site}: rank {rank.rank} is none of {members}; only the members of a group may make it")
    if len(set(members)) < len(members) or max(members) >= most:
        raise ValueError(f"{site}: {members}; a group needs different members from 0 to {most - 1}")
    return members


class GroupWork(Work):
    """The awaited result of `Rank.group`."""

    __slots__ = ("_name", "_rank")

    def __init__(self, rank: Making, name: str, outcome: Outcome) -> None:
        super().__init__(rank.journal, outcome)
        self._rank, self._name = rank, name

    def __await__(self) -> Generator[Any, Any, HostCommunicator]:
        outcome, (journal, site, ordinal) = self._result(), self._of
        try:
            host, device = yield from outcome
        except RuntimeError as error:
            journal.failed(site, ordinal, error)
            raise
        journal.learned(site, ordinal, NOTHING)
        self._rank.hosts[self._name] = host
        if device is not None:
            self._rank.devices[self._name] = device
        return self._rank.host(self._name)
