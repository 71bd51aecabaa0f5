"""Ports of nodes, and the stores behind them.

Who listens on a port is settled by the order in which actors come to it: to open, to join and to close touch the port,
so where there is no time a search tries all orders. Values are sent, and arrive some time later, those of one rank in
order; of several the last one counts. To look at a key touches it.

A time-out is longer than all that goes on by itself: where there is no time it passes when nothing else can happen, the
shortest first.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from dpsim.backend.stores import JournaledStore
from dpsim.backend.work import Outcome
from dpsim.interface import Frozen
from dpsim.schedule import own_label
from dpsim.sim.host import Host
from dpsim.sim.machine import Machine
from dpsim.sim.op import Op
from dpsim.world import Stranger, World

FIRST_FREE = 49152
"""Where the ports begin that a node gives to those who ask for any."""


class Table:
    """What is behind a port while somebody listens. `by`: who came to listen, None for a stranger."""

    def __init__(self, node: int, port: int, by: int | None) -> None:
        self.node, self.port, self.by = node, port, by
        self.values: dict[str, tuple[Frozen, Op]] = {}
        self.getters: dict[str, list[Waiting]] = {}
        self.open = True


class Waiting:
    """An op of a host that waits for something, with a time-out: it fires once, by what comes first."""

    def __init__(self, machine: Machine, op: Op, label: str, timeout_ns: int | None) -> None:
        self.machine = machine
        self.op = op
        self.result: Any = None
        self.alarm: Op | None = None
        if timeout_ns is not None:
            self.alarm = Op(label, timeout_ns, self._passes, None, op.life)
            machine.alarms.set(self.alarm, timeout_ns)

    @property
    def over(self) -> bool:
        return self.op.at >= 0

    def end(self, result: Any, by: Op | None) -> None:
        """It has what it waited for, because of that op."""
        if self.over:
            return
        self.result = result
        if self.alarm is not None and self.alarm.at < 0:
            self.machine.alarms.cancel(self.alarm)
        if by is not None:
            self.op.seen_marks |= by.seen_marks
            self.op.causes |= by.causes
        self.machine.submit(self.op)

    def _passes(self) -> None:
        self.end(None, self.alarm)


class Ports:
    """The ports of all nodes of a world."""

    def __init__(self, machine: Machine, world: World) -> None:
        self._machine = machine
        self._tables: dict[tuple[int, int], Table] = {}
        self._joining: dict[tuple[int, int], list[Waiting]] = {}
        self._chains: dict[tuple[int, int, int], Op] = {}
        self._free: dict[int, int] = {}
        self._posts: dict[int, int] = {}
        for stranger in world.strangers:
            self._settle(stranger)

    def _settle(self, stranger: Stranger) -> None:
        node, port = stranger.node, stranger.port
        if not stranger.late:
            self._tables[node, port] = Table(node, port, None)
            return
        op = Op(f"stranger takes port {port} of node {node}", 1, None, self._uses(node, port))
        op.effect = lambda: self._open(node, port, None, op)
        self._machine.submit(op)

    @staticmethod
    def _uses(node: int, port: int) -> tuple[tuple[Any, str], ...]:
        return ((("port", node, port), "w"),)

    def open(self, op: Op, node: int, port: int, rank: int) -> None:
        """Let the value of `op` be the table, or None."""
        port = port or self._any(node)
        op.effect = lambda: self._open(node, port, rank, op)
        op.footprint = (*op.touches(), *self._uses(node, port)) if self._machine.visible else None
        self._machine.submit(op)

    def _any(self, node: int) -> int:
        port = self._free.get(node, FIRST_FREE)
        while (node, port) in self._tables:
            port += 1
        self._free[node] = port + 1
        return port

    def _open(self, node: int, port: int, by: int | None, op: Op) -> Table | None:
        if (node, port) in self._tables:
            return None
        table = self._tables[node, port] = Table(node, port, by)
        for waiting in self._joining.pop((node, port), ()):
            waiting.end(table, op)
        return table

    def join(self, host: Host, node: int, port: int, timeout_ns: int | None, label: str, late: str) -> Waiting:
        """What a host waits for that joins whoever listens there."""
        machine = self._machine
        waiting = Waiting(machine, _op(host), late, timeout_ns)
        op = host.op(label, host=True)
        op.footprint = (*op.touches(), (("port", node, port), "r")) if machine.visible else None
        op.effect = lambda: self._join(waiting, node, port, op)
        machine.submit(op)
        return waiting

    def _join(self, waiting: Waiting, node: int, port: int, op: Op) -> None:
        table = self._tables.get((node, port))
        if table is not None:
            waiting.end(table, op)
        elif not waiting.over:
            self._joining.setdefault((node, port), []).append(waiting)

    def put(self, host: Host, table: Table, key: str, value: Frozen, cost: int) -> None:
        """Send a value; it arrives after those that this rank sent before."""
        machine = self._machine
        host.issue()
        delivery = Op(host.address("arrives"), cost)
        if host.chained:
            host.before(delivery)
        delivery.effect = lambda: self._arrive(table, key, value, delivery)
        if machine.visible:
            delivery.footprint = ((("store", table.node, table.port, key), "w"),)
        line = host.rank, table.node, table.port
        machine.edge(self._chains.get(line), delivery)
        self._chains[line] = delivery
        machine.submit(delivery)

    @staticmethod
    def _arrive(table: Table, key: str, value: Frozen, by: Op) -> None:
        if not table.open:
            return
        table.values[key] = value, by
        for waiting in table.getters.pop(key, ()):
            waiting.end(value, by)

    def get(self, host: Host, table: Table, key: str, timeout_ns: int | None, label: str, late: str) -> Waiting:
        """What a host waits for that asks for a key."""
        machine = self._machine
        waiting = Waiting(machine, _op(host), late, timeout_ns)
        op = host.op(label, host=True)
        if machine.visible:
            op.footprint = (*op.touches(), (("store", table.node, table.port, key), "r"))
        op.effect = lambda: self._look(waiting, table, key, op)
        machine.submit(op)
        return waiting

    @staticmethod
    def _look(waiting: Waiting, table: Table, key: str, op: Op) -> None:
        found = table.values.get(key)
        if found is not None:
            value, by = found
            op.seen_marks |= by.seen_marks
            op.causes |= by.causes
            waiting.end(value, op)
        elif not table.open:
            waiting.end(None, op)
        elif not waiting.over:
            table.getters.setdefault(key, []).append(waiting)

    def close(self, host: Host, table: Table) -> None:
        """Who listens leaves; whoever else leaves takes nothing with it."""
        if table.by != host.rank or not table.open:
            return
        machine = self._machine
        host.issue()
        op = host.op(host.address("closes"), host=True)
        op.effect = lambda: self._closed(table, op)
        if machine.visible:
            op.footprint = (*op.touches(), *self._uses(table.node, table.port))
        machine.edge(self._chains.get((host.rank, table.node, table.port)), op)
        machine.submit(op)

    def _closed(self, table: Table, op: Op) -> None:
        table.open = False
        if self._tables.get((table.node, table.port)) is table:
            del self._tables[table.node, table.port]
        for waitings in table.getters.values():
            for waiting in waitings:
                waiting.end(None, op)
        table.getters.clear()

    def left(self, rank: int) -> None:
        """The process of a rank is gone: the system closes what it listened on, at some time after that."""
        for table in [one for one in self._tables.values() if one.by == rank]:
            label = own_label(rank, f"gives back port {table.port} of node {table.node}")
            op = Op(label, 0, None, self._uses(table.node, table.port))
            op.effect, op.args = self._closed, (table, op)
            self._machine.submit(op)

    def forget(self) -> None:
        self._tables.clear()
        self._joining.clear()
        self._chains.clear()


def _op(host: Host) -> Op:
    """What a host stands at: it fires when somebody submits it."""
    op = Op("", life=~host.rank)
    if host.chained:
        host.before(op)
    return op


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
        labels = host.address("asks at"), host.address("waits in vain at")

        def outcome() -> Generator[Any, Any, Frozen]:
            waiting = self._ports.get(host, self._table, key, timeout_ns, *labels)
            yield from host.wait(waiting.op)
            answer: Frozen = waiting.result
            return answer

        return outcome

    def _close(self) -> None:
        self._ports.close(self._host, self._table)


def open_store(host: Host, ports: Ports, node: int, port: int, took: int) -> Outcome:
    """Listen; learns the store, or None."""
    label = host.address("listens at")

    def outcome() -> Generator[Any, Any, SimStore | None]:
        op = host.op(label, host=True)
        ports.open(op, node, port, host.rank)
        table: Table | None = yield from host.wait(op)
        return None if table is None else SimStore(host, ports, table, took)

    return outcome


def join_store(host: Host, ports: Ports, node: int, port: int, timeout_ns: int | None, took: int) -> Outcome:
    """Connect; learns the store, or None."""
    labels = host.address("joins at"), host.address("waits in vain at")

    def outcome() -> Generator[Any, Any, SimStore | None]:
        waiting = ports.join(host, node, port, timeout_ns, *labels)
        yield from host.wait(waiting.op)
        return None if waiting.result is None else SimStore(host, ports, waiting.result, took)

    return outcome


__all__ = ["Ports", "SimStore", "join_store", "open_store"]
