"""Collectives and transfers on the host, over gloo.

They go out on a copy of the array, on both backends, as inference engines do it. Each starts at once; the await waits
for it. A *skipped* one has nothing to wait for and gives its own input. An *altered* one goes out with the count and
type that it announces, and what comes back is copied as far as it fits: gloo takes a difference of size for a reason to
end the process, and that is then what happens on this backend.

    work = GlooHostCommunicator(journal, patience, group).all_reduce(mine, site="agree")
    total = await work

Where the program aborts communicators each wait is polled, and looks whether this rank has given up. gloo itself knows
no such thing: in torch 2.13 `ProcessGroupGloo.abort` and `shutdown` leave what is under way as it is, and it ends if
the peers come. So the rank leaves it behind, and the process group is not used in any later job. That a peer's process
is gone gloo tells by an exception; here it is no end of a wait, as it is none elsewhere: the rank stands until it
aborts.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import numpy as np

from dpsim.backend.hosts.host_communicators import JournaledHostCommunicator
from dpsim.backend.hosts.work import Outcome
from dpsim.backend.journal.issue import Issue
from dpsim.backend.journal.journal import Journal
from dpsim.contract.interface import HostArray, Received
from real import gloo_calls
from real.abandoned import Unending, ended
from real.communicators import Group
from real.waiting import Patience, peer_gone


class GlooHostCommunicator(JournaledHostCommunicator):
    """Host collectives and transfers over gloo."""

    __slots__ = ("_from_numpy", "_group", "_patience")

    def __init__(self, journal: Journal, patience: Patience, group: Group) -> None:
        from torch import from_numpy

        super().__init__(journal, group.spec)
        self._from_numpy = from_numpy
        self._patience = patience
        self._group = group

    def _start(self, issues: list[Issue], array: HostArray, shape: tuple[int, ...]) -> Outcome:
        if len(issues) == 1 and shape == array.shape:
            [issue] = issues
            in_place = gloo_calls.IN_PLACE.get(issue.op)
            if in_place is not None and not (issue.altered or issue.delay_ns):  # most are so: one copy
                result = np.array(array, order="C")
                try:
                    return self._awaited(in_place(self._group, issue, self._from_numpy(result)), result)
                except RuntimeError as error:
                    return self._awaited(self._blamed(error), result)
        result = np.zeros(math.prod(shape), array.dtype)
        size = min(result.size, array.size)
        result[:size] = array.reshape(-1)[:size]
        last = None
        for issue in issues:
            self._patience.sleep(issue.delay_ns)
            # A repeated one has memory of its own: both are under way at the same time.
            result, source = result.copy(), np.array(array.reshape(-1))
            try:
                last = gloo_calls.start(self._group, issue, self._from_numpy(source), self._from_numpy(result))
            except RuntimeError as error:
                last = self._blamed(error)

        return self._awaited(last, result.reshape(shape))

    def _receive_any(self, array: HostArray, delay_ns: int) -> Outcome:
        self._patience.sleep(delay_ns)
        try:
            work = gloo_calls.receive_any(self._group, self._from_numpy(array.reshape(-1)))
        except RuntimeError as error:
            work = self._blamed(error)
        awaited = self._awaited(work, array)

        def outcome() -> Generator[Any, Any, Received]:
            result = yield from awaited()
            return Received(self.ranks[work.source()], result)

        return outcome

    def _awaited(self, work: Any, result: HostArray) -> Outcome:
        """The result when the work is done; None: there is none."""

        site = self.journal.site

        def outcome() -> Generator[Any, Any, HostArray]:
            if work is not None and self.journal.shared.aborts:
                self._unless_aborted(work, site)
            elif work is not None:
                self._patience.work(work)
            return result
            yield

        return outcome

    def _unless_aborted(self, work: Any, site: str) -> None:
        """Until the work is done. Raises Aborted if this rank gives up before."""
        if not self.aborted:
            self._patience.until(ended(work, lambda: self.aborted))
        if not self.aborted:
            try:
                work.wait()
            except RuntimeError as error:
                self._patience.until(ended(self._blamed(error), lambda: self.aborted))
        if self.aborted:
            raise self.error(site)

    def _blamed(self, error: RuntimeError) -> Any:
        """What could not be started: raises its error, or gives what never ends where a peer is gone."""
        if self.journal.shared.aborts and peer_gone(error):
            return Unending(error)
        self._patience.blame(error)

    def _abort(self) -> None:
        """Whoever waits looks at `aborted`."""
