"""Groups that ranks make during a job (`Rank.group`).

The members of a new group meet first: each increments a counter in the pool's store, and polls it. So the parent can
end that wait. Then each member connects, by calls of torch that wait for all members; by then all are on their way. The
worker keeps the group for later jobs, as it keeps others (`real.communicators`). In a later job the members meet again.

    outcome = make(rank, device, specs, issues)
    host, on_device = yield from outcome()      # waits until all members have arrived
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
    """The methods of a rank that makes a group."""

    journal: Journal
    patience: Patience
    maker: JobGroups


class MakingDevice(Protocol):
    """The methods of a device that give a rank its device communicators."""

    def communicator(self, rank: Any, group: Group) -> DeviceCommunicator:
        """Returns the communicator of a group."""


def make(rank: MakingRank, device: MakingDevice, specs: GroupSpecs, issues: list[Issue]) -> Outcome:
    """Returns an outcome: the rank meets the other members, once per issue, and then gets its communicators."""
    for issue in issues:
        rank.patience.sleep(issue.delay_ns)

    def outcome() -> Generator[Any, Any, Made]:
        if not issues:
            raise RuntimeError(f"{specs[0].name}: a planted fault skipped its creation, so this rank is not connected")
        for times in range(1, len(issues) + 1):
            rank.maker.meet(specs[0], times, rank.patience)
        host, *devices = rank.maker.of(specs)
        on_device = device.communicator(rank, devices[0]) if devices else None
        return GlooHostCommunicator(rank.journal, rank.patience, host), on_device
        yield

    return outcome
