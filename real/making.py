"""Groups that ranks make during a job (`Rank.group`).

The members meet first, each by a count on the store of the pool. So the host stands where it can be called off. Then
each connects, by calls of torch that wait for all members; none of these is late any more. A group is kept for later
jobs, as others are (`real.communicators`). Those meet anew.

    made = JobGroups(communicators, job)
    made.meet(spec, times=1, patience)          # stands until all members have come
    [group] = made.of((spec,))
"""

from __future__ import annotations

from dpsim.contract.rules.made_groups import GroupSpecs
from dpsim.contract.world import CommunicatorSpec
from real.communicators import Communicators, Group
from real.messages import Job
from real.waiting import Patience


class JobGroups:
    """Of one rank in one job."""

    def __init__(self, communicators: Communicators, job: Job) -> None:
        self._communicators = communicators
        self._job = job

    def meet(self, spec: CommunicatorSpec, times: int, patience: Patience) -> None:
        """Come to a group for that time. Raises Unfinished once the run has been given up."""
        store = self._communicators.meeting(self._job.number)
        store.add(spec.name, 1)
        patience.attempt(lambda: store.add(spec.name, 0) >= times * len(spec.ranks) or None, None)

    def of(self, specs: GroupSpecs) -> list[Group]:
        """The groups, once all members have come."""
        job = self._job
        lazy = f"job {job.number}" if job.world.lazy else ""
        return self._communicators.of(job.generation, specs, job.world.size, lazy)
