"""Communicators that are made at their first use (`World.lazy`), as torch makes those of NCCL.

A worker makes all communicators before a job and keeps them across jobs, so it plays the first use. The host stands in
the call until all members have reached theirs, and each of them counts itself on the store of the pool. A program sees
the same as with torch: which rank waits for which, and that it must not happen within a capture. A transfer that is no
part of a group has a separate communicator for its pair.

    made = Made(group, patience)
    made.meet((0, 1))                   # stands there until rank 1 has come, too; nothing the second time

Rejected: torch's own way, to leave the making to the first call. The host would stand in a call of C that no thread can
call off. And a communicator that an earlier job has made would be there already.
"""

from __future__ import annotations

from dpsim.backend.calls.communicators import JournaledDeviceCommunicator
from dpsim.backend.journal.issue import Issue
from dpsim.backend.journal.journal import Journal
from real.communicators import Group
from real.waiting import Patience


class MadeHere:
    """What was made of one communicator so far, as one rank knows it: itself, and those of pairs."""

    def __init__(self, group: Group, patience: Patience) -> None:
        self._name = group.spec.name
        self._store = group.firsts
        self._patience = patience
        self._came: set[tuple[int, ...]] = set()

    def knows(self, members: tuple[int, ...]) -> bool:
        """Whether this rank has arrived to make it."""
        return members in self._came

    def meet(self, members: tuple[int, ...]) -> None:
        """Arrive to use it, by a call whose record is the last of this host. Raises Unfinished once the run has been
        given up.
        """
        if members in self._came:
            return
        self._came.add(members)
        store, key = self._store, f"{self._name} {members}"
        store.add(key, 1)
        self._patience.attempt(lambda: store.add(key, 0) >= len(members) or None, None)


class FirstUse(JournaledDeviceCommunicator):
    """A device communicator whose first use may be a rendezvous. `made`: None where it is not."""

    __slots__ = ("made",)

    def __init__(self, journal: Journal, group: Group, patience: Patience) -> None:
        super().__init__(journal, group.spec)
        self.made = None if group.firsts is None else MadeHere(group, patience)

    def unmade(self, issue: Issue) -> bool:
        return self.made is not None and not self.made.knows(self.makes(issue))

    def makes(self, issue: Issue) -> tuple[int, ...]:
        """Whose communicator it goes out on."""
        if issue.group is not None or issue.peer is None:
            return self.ranks
        pair = self.journal.rank, issue.peer
        return min(pair), max(pair)
