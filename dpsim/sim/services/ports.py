"""Ports of nodes, and the stores behind them.

The first actor (a rank or service) that opens a port listens there. To open, to join and to close a port are ops that
touch it, so in untimed mode a search tries all their orders. An actor that sets a key of a store sends the value to the
store, where it arrives some time later. The values that one actor sends arrive in the order of its calls. A value that
arrives for a key replaces the earlier value of the key, whichever actor sent that one.

An actor that joins a port, or gets a key, reads the port or the key when there is something to read, and not before. So
its wait for a listener or a value is no choice of the search. But something may change just before it reads: another
value arrives, or the listener leaves. The read conflicts with these ops.

    rank 0   open 5, set k      close 5
    rank 1            join 5, get k           gets the value or, if rank 0 has left, None

`dpsim.sim.graph.alarms` has the rule for time-outs. A wait of 0 ns reads once, and may be too early.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from dpsim.contract.events import ASKS, CLOSES, GIVES_BACK, SETS, own_label
from dpsim.contract.interface import Frozen
from dpsim.contract.rules.store_changes import changed
from dpsim.contract.schedule import Footprint
from dpsim.contract.world import Stranger, World
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host
from dpsim.sim.services.waiting import LATER, Waiting

FIRST_FREE = 49152
"""The first port that a node gives to a call with port 0."""

SHARE = 16
"""Each actor has this number of free ports, so the order of such calls does not change their numbers."""

Place: TypeAlias = tuple[int, int]
"""A node and a port."""


class Table:
    """The state behind a port while an actor listens. `by`: the rank that listens, None for a stranger. `first`: for
    each key, the arrival of its first value; all gets that wait read after it.
    """

    def __init__(self, node: int, port: int, by: int | None) -> None:
        self.node, self.port, self.by = node, port, by
        self.values: dict[str, tuple[Frozen, Op]] = {}
        self.first: dict[str, Op] = {}
        self.getters: dict[str, list[Waiting]] = {}
        self.closed: Op | None = None


class Ports:
    """The ports of all nodes of a world."""

    def __init__(self, machine: Machine, world: World) -> None:
        self._machine = machine
        self._tables: dict[Place, Table] = {}
        self._opened: dict[Place, Op | None] = {}  # the op that first opened each port; None: open from the start
        self._joining: dict[Place, list[Waiting]] = {}
        self._chains: dict[tuple[int, int, int], Op] = {}
        self._closes: dict[tuple[int, int, int], Op] = {}  # a rank joins a port behind its own close
        self._given: dict[int, int] = {}
        self._strangers = {(one.node, one.port) for one in world.strangers}
        for stranger in world.strangers:
            self._settle(stranger)

    def _settle(self, stranger: Stranger) -> None:
        place = stranger.node, stranger.port
        if not stranger.late:
            self._tables[place] = Table(*place, None)
            self._opened[place] = None
            return
        op = Op(f"stranger takes port {stranger.port} of node {stranger.node}", 1, None, _port(place, "w"))
        op.effect, op.args = self._open, (place, None, op)
        self._machine.submit(op)

    def open(self, op: Op, node: int, port: int, rank: int) -> None:
        """Gives `op` the store's table as its value, or None if another actor listens."""
        place = node, port or self._any(node, rank)
        op.effect, op.args = self._open, (place, rank, op)
        op.footprint = (*op.touches(), *_port(place, "w")) if self._machine.visible else None
        self._machine.edge(self._chains.get((rank, *place)), op)  # a rank finds the port free that it has closed
        self._machine.submit(op)

    def _any(self, node: int, rank: int) -> int:
        while True:
            given = self._given.get(rank, 0)
            self._given[rank] = given + 1
            port = FIRST_FREE + rank * SHARE + given
            if (node, port) not in self._strangers:
                return port

    def _open(self, place: Place, by: int | None, op: Op) -> Table | None:
        if place in self._tables:
            return None
        table = self._tables[place] = Table(*place, by)
        self._opened.setdefault(place, op)
        for waiting in self._joining.pop(place, ()):
            self._look_for(waiting, place, op)
        return table

    def join(self, host: Host, node: int, port: int, timeout_ns: int | None) -> Waiting:
        """Returns the wait of a host that joins the listener of a port."""
        waiting, place = Waiting(self._machine, host, timeout_ns, "joins at"), (node, port)
        if place in self._opened or waiting.polls:
            self._look_for(waiting, place, None if waiting.polls else self._opened[place])
        else:
            self._joining.setdefault(place, []).append(waiting)
        return waiting

    def _look_for(self, waiting: Waiting, place: Place, after: Op | None) -> None:
        def see() -> Any:
            table = self._tables.get(place)
            if table is None and not waiting.polls:
                self._joining.setdefault(place, []).append(waiting)
            opened = None if table is None else self._opened[place]
            if opened is not None:
                waiting.op.seen_marks |= opened.seen_marks
                waiting.op.causes |= opened.causes
            return LATER if table is None else table

        waiting.look(see, _port(place, "r"), after, self._closes.get((waiting.host.rank, *place)))

    def put(self, host: Host, table: Table, key: str, value: Frozen, cost: int) -> None:
        """Sends a value. It arrives after the values that this rank sent before."""
        machine = self._machine
        host.issue()
        delivery = Op(host.address(SETS), cost)
        host.before(delivery)
        delivery.effect, delivery.args = self._arrive, (table, key, value, delivery)
        if machine.visible:
            delivery.footprint = _key(table, key, "w")
        line = host.rank, table.node, table.port
        machine.edge(self._chains.get(line), delivery)
        self._chains[line] = delivery
        machine.submit(delivery)

    def _arrive(self, table: Table, key: str, value: Frozen, by: Op) -> None:
        if table.closed is not None:
            return
        table.values[key] = value, by
        table.first.setdefault(key, by)
        for waiting in table.getters.pop(key, ()):
            self._look_at(waiting, table, key, by)

    def change(self, op: Op, host: Host, table: Table, key: str, how: str, operands: tuple[Any, ...]) -> None:
        """Gives `op` the answer of a change as its value, after all earlier values of the rank."""
        op.effect, op.args = self._change, (table, key, how, operands, op)
        if self._machine.visible:
            op.footprint = (*op.touches(), *_key(table, key, "w"))
        line = host.rank, table.node, table.port
        self._machine.edge(self._chains.get(line), op)
        self._chains[line] = op
        self._machine.submit(op)

    def _change(self, table: Table, key: str, how: str, operands: tuple[Any, ...], op: Op) -> Frozen:
        if table.closed is not None:
            return None
        value, by = table.values.get(key, (None, None))
        if by is not None:
            op.seen_marks |= by.seen_marks
            op.causes |= by.causes
        after = changed(how, value, operands)
        if after.value is None:
            table.values.pop(key, None)
        elif after.value != value or value is None:
            self._arrive(table, key, after.value, op)
        return after.answer

    def get(self, host: Host, table: Table, key: str, timeout_ns: int | None) -> Waiting:
        """Returns the wait of a host that gets a key."""
        waiting = Waiting(self._machine, host, timeout_ns, ASKS)
        enabled = table.first.get(key) or table.closed
        if waiting.polls:
            self._look_at(waiting, table, key, None)
        elif enabled is not None:
            self._look_at(waiting, table, key, enabled)
        else:
            table.getters.setdefault(key, []).append(waiting)
        return waiting

    def _look_at(self, waiting: Waiting, table: Table, key: str, after: Op | None) -> None:
        def see() -> Any:
            if table.closed is not None:
                return None
            if key not in table.values:  # a get of 0 ns may be too early; other gets may read after a delete
                if not waiting.polls:
                    table.getters.setdefault(key, []).append(waiting)
                return LATER
            value, by = table.values[key]
            waiting.op.seen_marks |= by.seen_marks
            waiting.op.causes |= by.causes
            return value

        waiting.look(see, _key(table, key, "r"), after)

    def close(self, host: Host, table: Table) -> None:
        """The listener leaves its port. If another actor leaves the store, the port does not change."""
        if table.by != host.rank or table.closed is not None:
            return
        host.issue()
        op = host.op(host.address(CLOSES), host=True)
        op.effect, op.args = self._close, (table, op)
        if self._machine.visible:
            op.footprint = (*op.touches(), *_port((table.node, table.port), "w"))
        line = host.rank, table.node, table.port
        self._machine.edge(self._chains.get(line), op)
        self._chains[line] = self._closes[line] = op
        self._machine.submit(op)

    def _close(self, table: Table, op: Op) -> None:
        if table.closed is not None:
            return
        table.closed = op
        if self._tables.get((table.node, table.port)) is table:
            del self._tables[table.node, table.port]
        getters, table.getters = table.getters, {}
        for key, waitings in getters.items():
            for waiting in waitings:
                self._look_at(waiting, table, key, op)

    def left(self, host: Host, after: Op | None) -> None:
        """Some time after a rank's end, the system closes its ports. `after`: the op that ended it, if not its host."""
        for table in [one for one in self._tables.values() if one.by == host.rank]:
            label = own_label(host.rank, f"{GIVES_BACK} port {table.port} of node {table.node}")
            op = Op(label, 0, None, _port((table.node, table.port), "w"))
            if host.chained:
                op.causes |= host.causes
                op.seen_marks |= host.seen_marks
            if after is not None:
                op.causes |= after.causes
            op.effect, op.args = self._close, (table, op)
            self._machine.submit(op)

    def forget(self) -> None:
        for table in self._tables.values():
            table.getters.clear()
        self._tables.clear()
        self._joining.clear()
        self._opened.clear()
        self._chains.clear()
        self._closes.clear()


def _port(place: Place, how: str) -> Footprint:
    return ((("port", *place), how),)


def _key(table: Table, key: str, how: str) -> Footprint:
    """Returns the footprint of an op on a key: it also reads the port, since the listener may have left."""
    return (("store", table.node, table.port, key), how), (("port", table.node, table.port), "r")
