"""Imitates communicators that all members create at their first use, as torch does with NCCL (`World.lazy`).

dpsim's worker processes create all NCCL communicators before the first run, and keep them for later runs. If a scenario
has `lazy`, a rank that makes its first call on a communicator does the following. It increments a counter in a store
that all workers share, and waits until all members have incremented the counter. Then it makes its call. So, as with
torch, the rank waits for all members, and a first use within the capture of a graph is an error. A send or receive
outside a coalesced group waits only for its peer, because torch creates a communicator for each pair.

    made = MadeHere(group, patience)
    made.meet((0, 1))                   # waits until rank 1 has called it, too; the second call returns at once

Rejected: create the communicator in the first call, as torch does. The host would wait in a C call of NCCL, and no
other thread could interrupt the wait. Also, the communicator would exist in the next run, which would not wait.
"""

from __future__ import annotations

from dpsim.backend.calls.communicators import JournaledDeviceCommunicator
from dpsim.backend.journal.issue import Issue
from dpsim.backend.journal.journal import Journal
from real.communicators import Group
from real.waiting import Patience


class MadeHere:
    """The first uses of one communicator and of its pairs, as one rank has seen them."""

    def __init__(self, group: Group, patience: Patience) -> None:
        self._name = group.spec.name
        self._store = group.firsts
        self._patience = patience
        self._arrived: set[tuple[int, ...]] = set()

    def knows(self, members: tuple[int, ...]) -> bool:
        """Whether this rank has already arrived at that first use."""
        return members in self._arrived

    def meet(self, members: tuple[int, ...]) -> None:
        """Arrives at a first use; the call's record is the last of this host. Raises Unfinished when the parent gives
        up the run.
        """
        if members in self._arrived:
            return
        self._arrived.add(members)
        store, key = self._store, f"{self._name} {members}"
        store.add(key, 1)
        self._patience.attempt(lambda: store.add(key, 0) >= len(members) or None, None)


class FirstUse(JournaledDeviceCommunicator):
    """A device communicator whose first use may be a rendezvous. `made`: None if it is not."""

    __slots__ = ("made",)

    def __init__(self, journal: Journal, group: Group, patience: Patience) -> None:
        super().__init__(journal, group.spec)
        self.made = None if group.firsts is None else MadeHere(group, patience)

    def unmade(self, issue: Issue) -> bool:
        return self.made is not None and not self.made.knows(self.makes(issue))

    def makes(self, issue: Issue) -> tuple[int, ...]:
        """Returns the members that meet before this call."""
        if issue.group is not None or issue.peer is None:
            return self.ranks
        pair = self.journal.rank, issue.peer
        return min(pair), max(pair)
