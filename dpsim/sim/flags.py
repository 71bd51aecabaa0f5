"""Flags between the host threads of a rank.

A flag is an edge: what waits for it comes after the turn in which it was set. It takes no time. A wait begins, and a
query looks, when it is issued: that is the turn that a search orders against others, and what comes until the await has
turns of its own.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from dpsim.backend.threads import JournaledFlag
from dpsim.backend.work import Outcome
from dpsim.sim.host import Host
from dpsim.sim.op import Op
from dpsim.sim.turns import TurningHost


class SimFlag(JournaledFlag):
    """A flag: the turn in which it was set, and who waits for that."""

    __slots__ = ("_by", "_host", "_set_now", "_waiting")

    def __init__(self, host: Host, name: str) -> None:
        super().__init__(host.journal, name)
        self._host = host
        self._set_now = False
        self._by: Op | None = None  # None: nothing that anybody need come after
        self._waiting: list[Op] = []

    def _set(self) -> None:
        host = self._host
        if not self._set_now:
            self._set_now = True
            self._by = host.last if isinstance(host, TurningHost) else None
        waiting, self._waiting = self._waiting, []
        for op in waiting:
            host.machine.edge(self._by, op)
            host.machine.submit(op)

    def _clear(self) -> None:
        self._set_now, self._by = False, None

    def _stand(self, ns: int) -> None:
        host = self._host
        late = Op("", ns, life=~host.rank)
        if host.chained:
            host.before(late)
        host.machine.submit(late)
        host.stand((late,), len(host.records))

    def _wait(self, late_ns: int) -> Outcome:
        host = self._host
        late = host.address("is late for") if late_ns else ""
        op = None
        if not self._set_now or self._by is not None:
            op = Op(host.address("passes"), life=~host.rank)
            if host.chained:
                host.before(op)
            if self._set_now:
                host.machine.edge(self._by, op)
                host.machine.submit(op)
            else:
                self._waiting.append(op)

        def outcome() -> Generator[Any, Any, None]:
            if op is not None:
                yield from host.wait(op)
            if late_ns:
                yield from host.pause(late_ns, late)

        return outcome

    def _query(self, late_ns: int) -> Outcome:
        host, yes, by = self._host, self._set_now, self._by
        late = host.address("is late for") if late_ns else ""

        def outcome() -> Generator[Any, Any, bool]:
            if late_ns:
                yield from host.pause(late_ns, late)
            if by is not None and isinstance(host, TurningHost):
                host._learn(by)
            if not yes and host.machine.timed:
                yield from host.spin()
            return yes

        return outcome
