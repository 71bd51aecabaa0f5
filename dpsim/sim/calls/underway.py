"""Collectives and transfers that a host has started: the objects that the program awaits.

    underway = Underway((communicator, last, end, issue, (host.word, site, ordinal), wanted))
    yield from underway()                       # waits for the part, and returns `wanted`
    queried = underway.queried()                # an object that can be queried first, and awaited later

The rank's part in the call exists from the call on: `end` fires when the part ends, whether or not the host looks. It
is the op `last` of the communicator, or an op behind it. There is an op behind it if members may leave
(`dpsim.sim.collectives.membership`) or die (`dpsim.sim.collectives.served`) before they have served this rank.

A collective that need not wait for all members may wait for them all the same; the strategy draws which. It draws when
the host can first see the difference: at the await, or at the first query.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from dpsim.backend.hosts.work import Outcome
from dpsim.contract.interface import HostArray, Received
from dpsim.contract.ops import MAIN
from dpsim.sim.calls.queried_call import QueriedCall, behind, until
from dpsim.sim.collectives.parts import EarlyEnd
from dpsim.sim.graph.op import Op


class Underway(tuple[Any, ...]):
    """A call: communicator, the op of the communicator that ends it, and the op that ends the rank's part. Then its
    issue, its visit (thread, site, ordinal), and the result array. It is a tuple for speed, since a program awaits most
    calls and queries few.
    """

    __slots__ = ()

    def __call__(self) -> Generator[Any, Any, Any]:
        communicator, last, part, issue, _, wanted = self
        host = communicator.host
        if communicator.membership is not None or part is not last:
            return self.wait(self.drawn())
        end = last if host.machine.timed else communicator.group.ended(host, last)
        if isinstance(end, EarlyEnd) and (issue.op == "send" or (issue.op == "broadcast" and issue.root == host.rank)):
            return self._perhaps_early(end)
        waits: Generator[Any, Any, Any] = host.wait(end, wanted)
        return waits

    def drawn(self) -> Op:
        """Draws how the call ends, and returns the op for which an awaiting host waits."""
        communicator, last, part = self[:3]
        host = communicator.host
        end: Op = last if host.machine.timed else communicator.group.ended(host, last)
        return part if end is last else behind(host.machine, [part, end])

    def wait(self, end: Op) -> Generator[Any, Any, Any]:
        """Waits for the op that `drawn` has returned; returns the result."""
        yield from until(self[0], end, self[4][1])
        return self[5]

    def _perhaps_early(self, end: EarlyEnd) -> Generator[Any, Any, Any]:
        communicator, _, _, _, (word, site, ordinal), wanted = self
        host = communicator.host
        result = yield from host.wait(end, wanted)
        if end.all_arrived.at < 0:
            host.machine.early.append((host.rank, word.partition("/")[2] or MAIN, site, ordinal))
        return result

    def queried(self) -> QueriedCall:
        return QueriedCall(self)


class UnderwayFromAny(Underway):
    """A receive from any source. The value of its op `last` is the sender's rank."""

    __slots__ = ()

    def __call__(self) -> Generator[Any, Any, Received]:
        return self.wait(self.drawn())

    def wait(self, end: Op) -> Generator[Any, Any, Received]:
        array: HostArray = yield from super().wait(end)
        return Received(self[1].value, array)


class Skipped:
    """A call that a fault left out: it ends at once."""

    __slots__ = ("_wanted",)

    def __init__(self, wanted: HostArray) -> None:
        self._wanted = wanted

    def __call__(self) -> Generator[Any, Any, HostArray]:
        return self._wanted
        yield

    def queried(self) -> Skipped:
        return self

    def query(self) -> Outcome:
        def outcome() -> Generator[Any, Any, bool]:
            return True
            yield

        return outcome

    def within(self, timeout_ns: int) -> Outcome:
        return self.query()
