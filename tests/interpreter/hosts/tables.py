"""Stores: tables of keys behind ports.

A `put` is sent, and arrives some time later; the values of one rank arrive in the order of its calls. All other calls
happen in one step. `add`, `swap` and `drop` come after the earlier values of their rank. A closed store answers None.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.interpreter.hosts.state import State, Table
from tests.interpreter.state import Map

ON_TABLES = ("put", "fetch", "add", "swap", "drop", "close")


def opened(state: State, rank: int, name: str, store: str, port: int) -> State:
    if any(table.port == port and not table.closed for table in state.tables):
        return state.learns(rank, name, False)
    table = Table(port, listener=rank)
    return _joined(state._replace(tables=(*state.tables, table)), rank, name, store, len(state.tables))


def joined(state: State, rank: int, name: str, store: str, port: int) -> State | None:
    """Returns the state after the rank has joined the port's listener, or None if there is none."""
    for number, table in enumerate(state.tables):
        if table.port == port and not table.closed:
            return _joined(state, rank, name, store, number)
    return None


def _joined(state: State, rank: int, name: str, store: str, number: int) -> State:
    stores = state.hosts[rank].stores.plus(store, number)
    return state.with_host(rank, stores=stores).learns(rank, name, True)


def step(state: State, rank: int, name: str, what: str, how: list[Any]) -> State | None:
    """Returns the state after a call on a store, or None if the call waits."""
    store, *rest = how
    host = state.hosts[rank]
    if store not in host.stores:
        return state.goes_on(rank, name)
    number = host.stores[store]
    table = state.tables[number]
    if what == "put":
        values = (*table.on_way.get(rank, ()), (rest[0], host.threads[name].number))
        return _with(state, number, table._replace(on_way=table.on_way.plus(rank, values))).goes_on(rank, name)
    if what == "close":
        state = _closed(state, number) if table.listener == rank else state
        return state.with_host(rank, stores=host.stores.minus(store)).goes_on(rank, name)
    if table.closed:
        return state.learns(rank, name, None)
    if what == "fetch":
        return state.learns(rank, name, table.keys[rest[0]]) if rest[0] in table.keys else None
    if rank in table.on_way:
        return None
    keys, value = _changed(table.keys, what, rest)
    return _with(state, number, table._replace(keys=keys)).learns(rank, name, value)


def _changed(keys: Map, what: str, how: list[Any]) -> tuple[Map, Any]:
    """Returns the keys after a call, and its result."""
    key, *rest = how
    if what == "add":
        value = keys.get(key, 0) + rest[0]
        return keys.plus(key, value), value
    if what == "drop":
        return keys.minus(key), key in keys
    expected, desired = rest
    if keys.get(key, "") == expected:
        return keys.plus(key, desired), desired
    return keys, keys.get(key, expected)


def arrivals(state: State) -> Iterator[State]:
    """Yields the states in which the next value of a rank has arrived."""
    for number, table in enumerate(state.tables):
        for rank, ((key, value), *rest) in table.on_way.items():
            on_way = table.on_way.plus(rank, tuple(rest)) if rest else table.on_way.minus(rank)
            yield _with(state, number, table._replace(keys=table.keys.plus(key, value), on_way=on_way))


def closed_by(state: State, rank: int) -> State:
    """Returns the state after the death of a rank, which closes the stores behind its ports."""
    for number, table in enumerate(state.tables):
        if table.listener == rank:
            state = _closed(state, number)
    return state


def _closed(state: State, number: int) -> State:
    return _with(state, number, state.tables[number]._replace(closed=True, keys=Map(), on_way=Map()))


def _with(state: State, number: int, table: Table) -> State:
    return state._replace(tables=(*state.tables[:number], table, *state.tables[number + 1 :]))
