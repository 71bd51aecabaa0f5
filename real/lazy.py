"""Communicators with a rendezvous at their first use (`World.lazy`), as torch creates those of NCCL.

A worker creates all communicators before a job and keeps them across jobs, so it imitates the first use. The host waits
in the call until all members have reached their first use; each member increments a counter in the pool's store. A
program sees the same as with torch: which rank waits for which, and an error if it happens within a capture. A transfer
outside a coalesced group uses a separate communicator for its pair.

    made = Made(group, patience)
    made.meet((0, 1))                   # waits until rank 1 has called it, too; the second call returns at once

Rejected: torch's real behaviour, where the first call creates the communicator. The host would wait in a C call that no
thread can interrupt. And in a later job the communicator would already exist.
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
