"""Collectives and transfers on the host, over gloo.

Both backends use gloo for host calls. Each call sends a copy of the array, as inference engines do. It starts at once,
and the await waits for its end. A call that a fault *skips* waits for nothing and returns its own input. A call that a
fault *alters* uses the changed count and type, and dpsim copies as much of its result as fits. If sizes differ between
ranks, gloo ends the process, and so does this backend.

    work = GlooHostCommunicator(journal, patience, group).all_reduce(mine, site="agree")
    total = await work

If a program aborts communicators, each wait polls and checks whether another thread of this rank has aborted.
(`dpsim.backend.hosts.works` asks whether the rank had aborted before.) gloo itself has no abort: in torch 2.13,
`ProcessGroupGloo.abort` and `shutdown` do not affect operations under way, which end if the peers arrive. So the rank
abandons the operation, and later jobs do not use the process group. If a peer's process ends, gloo raises an exception.
Here the wait then continues, as on other backends, until the rank aborts.
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
from dpsim.contract.dtypes import bits
from dpsim.contract.gates import EARLY
from dpsim.contract.interface import HostArray, Received
from dpsim.contract.ops import BROKEN_OFF, DType
from real import gloo_calls
from real.abandoned import Unending, ended
from real.calls import NATIVE
from real.communicators import Group
from real.waiting import Patience, WatchedWork, peer_gone


class GlooCall(tuple[Any, ...]):
    """A started call: communicator, torch's work or None, the array for the result, and the site."""

    __slots__ = ()

    def __call__(self) -> Generator[Any, Any, Any]:
        communicator, work, result, site = self
        if work is not None and communicator.journal.shared.aborts:
            communicator.wait_unless_aborted(work, site)
        elif work is not None:
            communicator.patience.work(work)
        return result
        yield

    def queried(self) -> GlooCall:
        """Returns the same call with a work that can be polled: gloo's transfers need a thread that waits for them."""
        communicator, work, result, site = self
        if work is None or getattr(work, "can_be_polled", True):
            return self
        return type(self)((communicator, WatchedWork(work), result, site))

    def query(self) -> Outcome:
        return self._looks(0)

    def within(self, timeout_ns: int) -> Outcome:
        return self._looks(timeout_ns)

    def _looks(self, timeout_ns: int) -> Outcome:
        communicator, work, _, site = self
        gate = communicator.journal.gate()

        def outcome() -> Generator[Any, Any, bool]:
            if gate is not None and gate.learns == (False,):
                communicator.patience.check()
                communicator.patience.sleep(timeout_ns)
                return False
            if gate is not None and work is not None:
                communicator.patience.until(ended(work, lambda: communicator.aborted))
            return work is None or communicator.look(work, site, timeout_ns)
            yield  # as in `queried`

        return outcome


class GatedCall(GlooCall):
    """A call whose end has a gate: for its rank it ends at once, or only by an abort."""

    learns: tuple[Any, ...]

    def __new__(cls, call: tuple[Any, ...], learns: tuple[Any, ...]) -> GatedCall:
        made = super().__new__(cls, call)
        made.learns = learns
        return made

    def __call__(self) -> Generator[Any, Any, Any]:
        communicator, work, result, site = self
        if self.learns == (EARLY,):
            UNAWAITED.append((work, result))
            return result
        communicator.patience.until(lambda: communicator.aborted)
        raise communicator.error(site)
        yield

    def queried(self) -> GatedCall:
        return GatedCall(GlooCall(self).queried(), self.learns)


UNAWAITED: list[Any] = []
"""Works that continue for the peers of a call that ended early. gloo needs their memory as long as this process
lives.
"""


class GlooFromAny(GlooCall):
    """A receive from any source."""

    __slots__ = ()

    def __call__(self) -> Generator[Any, Any, Received]:
        communicator, work, _, _ = self
        result = yield from super().__call__()
        return Received(communicator.ranks[work.source()], result)


class GlooHostCommunicator(JournaledHostCommunicator):
    """Host collectives and transfers over gloo."""

    __slots__ = ("_from_numpy", "_gated", "_group", "patience")

    def __init__(self, journal: Journal, patience: Patience, group: Group) -> None:
        from torch import from_numpy

        super().__init__(journal, group.spec)
        self._from_numpy = from_numpy
        self.patience = patience
        self._group = group
        self._gated = bool(journal.shared.world.gates)

    def _start(self, issues: list[Issue], array: HostArray, shape: tuple[int, ...]) -> GlooCall:
        if len(issues) == 1 and shape == array.shape:
            [issue] = issues
            in_place = gloo_calls.IN_PLACE.get(issue.op)
            native = issue.dtype in NATIVE and not issue.altered
            if in_place is not None and native and not issue.delay_ns:  # the common case: one copy
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
            self.patience.sleep(issue.delay_ns)
            # A call that a fault repeats has separate memory: both calls are under way at once.
            result, source = result.copy(), np.array(array.reshape(-1))
            try:
                tensors = self._from_numpy(bits(source)), self._from_numpy(bits(result))
                last = gloo_calls.start(self._group, issue, *tensors)
            except RuntimeError as error:
                last = self._blamed(error)

        return self._awaited(last, result.reshape(shape))

    def _receive_any(self, array: HostArray, dtype: DType, delay_ns: int) -> GlooCall:
        self.patience.sleep(delay_ns)
        gate, memory = self.journal.gate(), self._from_numpy(bits(array.reshape(-1)))
        try:
            if gate is not None and gate.learns != (BROKEN_OFF,):
                work: Any = gloo_calls.receive_from(self._group, memory, gate.learns[0][0])
            else:
                work = gloo_calls.receive_any(self._group, memory)
        except RuntimeError as error:
            work = self._blamed(error)
        return GlooFromAny((self, work, array, self.journal.site))

    def _awaited(self, work: Any, result: HostArray) -> GlooCall:
        gate = self.journal.gate() if self._gated else None
        if gate is not None and gate.learns and work is not None:
            return GatedCall((self, work, result, self.journal.site), gate.learns)
        return GlooCall((self, work, result, self.journal.site))

    def look(self, work: Any, site: str, timeout_ns: int = 0) -> bool:
        """Whether a work that can be polled ends within a time. Raises Aborted if another thread of this rank aborts
        meanwhile.
        """
        if timeout_ns:
            over = self.patience.within(ended(work, lambda: self.aborted), timeout_ns)
        else:
            over = self.patience.ask(work.is_completed)
        if self.aborted:
            raise self.error(site)
        return over

    def wait_unless_aborted(self, work: Any, site: str) -> None:
        """Waits until the work has ended. Raises Aborted if another thread of this rank aborts first."""
        self.patience.until(ended(work, lambda: self.aborted))
        if not self.aborted:
            try:
                work.wait()
            except RuntimeError as error:
                self.patience.until(ended(self._blamed(error), lambda: self.aborted))
        if self.aborted:
            raise self.error(site)

    def _blamed(self, error: RuntimeError) -> Any:
        """For a call that gloo could not start: raises its error, or returns a work that never ends if a peer's process
        has ended.
        """
        if self.journal.shared.aborts and peer_gone(error):
            return Unending(error)
        self.patience.blame(error)

    def _abort(self) -> None:
        """Does nothing: waiting threads check `aborted`."""
