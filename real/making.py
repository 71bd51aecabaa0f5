"""Groups that ranks make during a job (`Rank.group`).

The members meet first, each by a count on the store of the pool. So the host stands where it can be called off. Then
each connects, by calls of torch that wait for all members; none of these is late any more. A group is kept for later
jobs, as others are (`real.communicators`). Those meet anew.

    outcome = make(rank, device, specs, issues)
    host, on_device = yield from outcome()      # stands until all members have come
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

from dpsim.backend.hosts.making import Made
from dpsim.backend.hosts.work import Outcome
from dpsim.backend.journal.issue import Issue
from dpsim.backend.journal.journal import Journal
from dpsim.contract.interface import DeviceCommunicator
from dpsim.contract.rules.made_groups import GroupSpecs
from real.communicators import Group, JobGroups
from real.host_calls import GlooHostCommunicator
from real.waiting import Patience


class MakingRank(Protocol):
    """A rank that makes a group."""

    journal: Journal
    patience: Patience
    maker: JobGroups


class MakingDevice(Protocol):
    """What gives a rank its device communicators."""

    def communicator(self, rank: Any, group: Group) -> DeviceCommunicator:
        """That of a group."""


def make(rank: MakingRank, device: MakingDevice, specs: GroupSpecs, issues: list[Issue]) -> Outcome:
    """A rank meets the others, once for each issue, and has its communicators then."""
    for issue in issues:
        rank.patience.sleep(issue.delay_ns)

    def outcome() -> Generator[Any, Any, Made]:
        if not issues:
            raise RuntimeError(f"{specs[0].name}: a fault left out its making, so this rank is not connected")
        for times in range(1, len(issues) + 1):
            rank.maker.meet(specs[0], times, rank.patience)
        host, *devices = rank.maker.of(specs)
        on_device = device.communicator(rank, devices[0]) if devices else None
        return GlooHostCommunicator(rank.journal, rank.patience, host), on_device
        yield

    return outcome
