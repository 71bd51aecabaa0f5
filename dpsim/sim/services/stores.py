"""Stores of the simulation, as one rank has them. `dpsim.sim.services.ports` contains their state.

store = yield from open_store(host, ports, node=0, port=5, took=10_000)()      # None: another actor listens there
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from dpsim.backend.hosts.stores import JournaledStore
from dpsim.backend.hosts.work import Outcome
from dpsim.contract.events import CHANGES, LISTENS
from dpsim.contract.interface import Frozen
from dpsim.sim.hosts.host import Host
from dpsim.sim.services.ports import Ports, Table
from dpsim.sim.services.waiting import Waiting


class SimStore(JournaledStore):
    """A store of the simulation."""

    __slots__ = ("_host", "_ports", "_table", "_took")

    def __init__(self, host: Host, ports: Ports, table: Table, took: int) -> None:
        super().__init__(host.journal, table.node, table.port)
        self._host = host
        self._ports = ports
        self._table = table
        self._took = took

    def _put(self, key: str, value: Frozen) -> None:
        self._ports.put(self._host, self._table, key, value, self._took)

    def _get(self, key: str, timeout_ns: int | None) -> Outcome:
        host = self._host

        def outcome() -> Generator[Any, Any, Frozen]:
            waiting = self._ports.get(host, self._table, key, timeout_ns)
            yield from waited(host, waiting)
            answer: Frozen = waiting.result
            return answer

        return outcome

    def _change(self, key: str, how: str, operands: tuple[Any, ...]) -> Outcome:
        host = self._host
        op = host.op(host.address(CHANGES), self._took, host=True)
        self._ports.change(op, host, self._table, key, how, operands)

        def outcome() -> Generator[Any, Any, Frozen]:
            answer: Frozen = yield from host.wait(op)
            return answer

        return outcome

    def _close(self) -> None:
        self._ports.close(self._host, self._table)


def waited(host: Host, waiting: Waiting) -> Generator[Any, Any, None]:
    """Waits. Timed: if a host polls in vain again and again, the clock advances (`Host.spin`)."""
    if waiting.polls and waiting.result is None and host.machine.timed:
        yield from host.in_vain(waiting.op)
    else:
        yield from host.wait(waiting.op)


def open_store(host: Host, ports: Ports, node: int, port: int, took: int) -> Outcome:
    """Returns an outcome that opens a port. Its value is the store, or None."""
    label = host.address(LISTENS)

    def outcome() -> Generator[Any, Any, SimStore | None]:
        op = host.op(label, host=True)
        ports.open(op, node, port, host.rank)
        table: Table | None = yield from host.wait(op)
        return None if table is None else SimStore(host, ports, table, took)

    return outcome


def join_store(host: Host, ports: Ports, node: int, port: int, timeout_ns: int | None, took: int) -> Outcome:
    """Returns an outcome that joins a port. Its value is the store, or None."""

    def outcome() -> Generator[Any, Any, SimStore | None]:
        waiting = ports.join(host, node, port, timeout_ns)
        yield from waited(host, waiting)
        return None if waiting.result is None else SimStore(host, ports, waiting.result, took)

    return outcome
