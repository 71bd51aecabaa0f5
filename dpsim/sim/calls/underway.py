"""Collectives and transfers that a host has started: the objects that the program awaits.

    underway = Underway((communicator, last, issue, (host.word, site, ordinal), wanted))
    yield from underway()                       # waits for the op `last`, and returns `wanted`
    asked = underway.asked()                    # an object that can be queried first, and awaited later

A collective that need not wait for all members may wait for them all the same; the strategy draws which. It draws when
the host can first see the difference: at the await, or at the first query.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

from dpsim.backend.hosts.work import Outcome
from dpsim.contract.interface import HostArray, Received
from dpsim.contract.ops import MAIN
from dpsim.sim.calls.queried_call import QueriedCall, over, part_of, received, unbroken
from dpsim.sim.collectives.parts import EarlyEnd
from dpsim.sim.collectives.served import served
from dpsim.sim.graph.op import Op


class Underway(tuple[Any, ...]):
    """A call: communicator, the op that ends it, its issue, its visit (thread, site, ordinal), and the result array. It
    is a tuple for speed, since a program awaits most calls and queries few.
    """

    __slots__ = ()

    def __call__(self) -> Generator[Any, Any, Any]:
        communicator, last, issue, _, wanted = self
        host = communicator.host
        machine = host.machine
        if communicator.membership is not None or machine.partial:
            return self._while_others_leave()
        end = last if machine.timed else communicator.group.ended(host, last)
        if isinstance(end, EarlyEnd) and (issue.op == "send" or (issue.op == "broadcast" and issue.root == host.rank)):
            return self._perhaps_early(end)
        waits: Generator[Any, Any, Any] = host.wait(end, wanted)
        return waits

    def _while_others_leave(self) -> Generator[Any, Any, Any]:
        """Waits in a world where ranks may abort, or where a rank's death may end the calls of its peers."""
        communicator, _, _, visit, wanted = self
        if communicator.membership is None:
            return (yield from communicator.host.wait(served_of(self), wanted))
        yield from unbroken(communicator, visit)
        yield from over(communicator, part_of(communicator, served_of(self)), visit)
        return wanted

    def _perhaps_early(self, end: EarlyEnd) -> Generator[Any, Any, Any]:
        """Waits, then records in `machine.early` if the host continues before its peers have arrived."""
        communicator, _, _, (word, site, ordinal), wanted = self
        host = communicator.host
        result = yield from host.wait(end, wanted)
        if end.all_arrived.at < 0:
            host.machine.early.append((host.rank, word.partition("/")[2] or MAIN, site, ordinal))
        return result

    def queried(self) -> QueriedCall:
        communicator, last, _, visit, wanted = self
        return QueriedCall(communicator, last, partial(served_of, self), visit, wanted)


class UnderwayFromAny(tuple[Any, ...]):
    """A receive from any source: communicator, the op that ends it, its visit (thread, site, ordinal), and the result
    array.
    """

    __slots__ = ()

    def __call__(self) -> Generator[Any, Any, Received]:
        communicator, last, visit, array = self
        if communicator.membership is not None:
            yield from unbroken(communicator, visit)
            yield from over(communicator, part_of(communicator, last), visit)
        return (yield from received(communicator, last, array))

    def queried(self) -> QueriedCall:
        communicator, last, visit, array = self
        return QueriedCall(communicator, last, lambda: last, visit, array, from_any=last)


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


def served_of(call: Underway) -> Op:
    """Returns the op that an awaiting host waits for. In worlds with partial kills, it does not fire if one of the
    other members dies first.
    """
    communicator, last, issue, _, _ = call
    host, group = communicator.host, communicator.group
    end: Op = last if host.machine.timed else group.ended(host, last)
    if not host.machine.partial:
        return end
    others = group.spec.ranks if issue.peer is None else (issue.peer,)
    return served(host, group.spec.name, others, end, on_device=False)
