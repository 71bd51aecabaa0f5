"""The parts `stores` and `changes`: listening and joining at a port, values of keys, and waits that receive nothing.

The first rank of each group listens on a port that the system chooses, so no decision includes the port. A time-out
only passes if nothing can arrive.
"""

from __future__ import annotations

from typing import Any

from dpsim.contract.interface import Frozen, Store
from dpsim.testing.conformance.ground import Round, expect, refused

MOMENT_NS = 20_000_000
"""The time-out of a wait that receives nothing."""

ENOUGH_NS = 30_000_000_000
"""The time-out of a wait that succeeds."""

EVERYTHING: dict[str, Frozen] = {
    "whole": -(1 << 70),
    "half": 0.5,
    "truth": False,
    "text": "a\nb \N{SNOWMAN}",
    "nested": ((), (1, (None, "x")), 2.0),
}
"""Values of each type that a message may have."""


async def stores(at: Round) -> None:
    store = await _opened(at)
    await _shared(at, store)
    await _refused(at, store)
    await _left(at, store)


async def _opened(at: Round) -> Store:
    """The first member opens a store, and the others join it."""
    rank, ring = at.rank, at.host.ranks
    if at.host.index:
        where: Any = await rank.mailbox("store").get("conformance.where")
        joined = await rank.join_store(where[0], where[1], "conformance.join", timeout_ns=ENOUGH_NS)
        assert joined is not None, "a join: expected a store, got None. The contract: as soon as an actor listens"
        expect("a joined store", (joined.node, joined.port), where, "a store says where it is")
        return joined
    store = await rank.open_store(0, "conformance.open")
    assert store is not None, "port 0: expected a store, got None. The contract: any port that is free"
    expect("the node of a store", store.node, rank.node, "a rank listens on its own node")
    law = "None if another actor already listens there"
    expect("the same port again", await rank.open_store(store.port, "conformance.open.taken"), None, law)
    for other in ring[1:]:
        rank.send(other, "store", (store.node, store.port), "conformance.tell")
    return store


async def _shared(at: Round, store: Store) -> None:
    """All members use the store in the same way, and the values of each member arrive in order."""
    rank, group = at.rank, at.host
    if group.index == group.size - 1:
        for key, value in EVERYTHING.items():
            store.set(key, value, "conformance.set")
    for key, value in EVERYTHING.items():
        got = await store.get(key, "conformance.get")
        expect(f"the key {key}", got, value, "a value arrives as it was set")
        expect(f"the type of {key}", type(got), type(value), "a value arrives as it was set")
    for number in range(3):
        store.set(f"of.{rank.rank}", (rank.rank, number), "conformance.set.own")
    store.set(f"all.{rank.rank}", at.step, "conformance.set.all")
    for other in group.ranks:
        await store.get(f"all.{other}", "conformance.get.all", timeout_ns=ENOUGH_NS)
        law = "the last value counts, and what one rank sets arrives in that order"
        expect(f"the last of rank {other}", await store.get(f"of.{other}", "conformance.get.own"), (other, 2), law)
    nothing = await store.get("missing", "conformance.get.missing", timeout_ns=MOMENT_NS)
    expect("a key that no actor sets", nothing, None, "None when the time is up")


async def _refused(at: Round, store: Store) -> None:
    array: Any = at.line(0, 1, "int32")
    number: Any = 5
    refused(ValueError, "the value None", lambda: store.set("key", None, "refused"))
    refused(TypeError, "an array as a value", lambda: store.set("key", array, "refused"))
    refused(TypeError, "the key 5", lambda: store.get(number, "refused"))
    refused(ValueError, "port 65536", lambda: at.rank.open_store(65536, "refused"))
    refused(ValueError, "a time-out of -1", lambda: store.get("key", "refused", timeout_ns=-1))


async def _left(at: Round, store: Store) -> None:
    """The listener leaves and listens again on the same port. If another member leaves, nothing changes."""
    rank, group, port = at.rank, at.host, store.port
    if group.index:
        store.set(f"waits.{rank.rank}", True, "conformance.set.waits")
        law = "None when the listener has left"
        expect("a key that no actor sets", await store.get("missing", "conformance.get.left"), None, law)
        store.close("conformance.close")
        again = await rank.join_store(store.node, port, "conformance.join.again")  # maybe before the listener is back
        assert again is not None
        again.set(f"gone.{rank.rank}", True, "conformance.set.gone")
        again.close("conformance.close.again")
    else:
        for other in group.ranks[1:]:
            await store.get(f"waits.{other}", "conformance.get.waits")
        store.close("conformance.close")
        again = await rank.open_store(port, "conformance.open.again")
        assert again is not None, "a port: expected a store, got None. The contract: who leaves gives the port back"
        for other in group.ranks[1:]:
            law = "an actor that leaves and does not listen takes nothing with it"
            expect(f"the key of rank {other}", await again.get(f"gone.{other}", "conformance.get.gone"), True, law)
        again.close("conformance.close.again")
    refused(RuntimeError, "a store that was closed", lambda: store.get("key", "refused"))
    await group.barrier(site="conformance.stores-done")


async def changes(at: Round) -> None:
    """Changes of a key are atomic: each member's add counts once, one member's value is first, and the others find it.

    The members race, so their values may differ between runs.
    """
    store, group, size = await _opened(at), at.host, at.host.size
    got = await store.add("count", group.index + 1, "conformance.add")
    if got == size * (size + 1) // 2:  # the last member
        store.set("counted", True, "conformance.counted")
    await store.get("counted", "conformance.get.counted")
    law = "an add reads and changes the key in one step"
    expect("the count", await store.add("count", 0, "conformance.add.nothing"), size * (size + 1) // 2, law)
    first = await store.compare_set("first", "", group.index, "conformance.compare")
    law = "a value where there was none, for the first; the others learn it"
    expect("the first", await store.get("first", "conformance.get.first"), first, law)
    expect("another than expected", await store.compare_set("first", -1, 99, "conformance.compare.other"), first, law)
    law = "a delete learns whether there was a value"
    key = f"own.{group.index}"
    expect("to delete nothing", await store.delete(key, "conformance.delete.nothing"), False, law)
    store.set(key, 1, "conformance.set.deleted")
    expect("to delete a value", await store.delete(key, "conformance.delete"), True, law)
    gone = await store.get(key, "conformance.get.deleted", timeout_ns=0)
    expect("a key that was deleted", gone, None, "a delete takes the value away")
    await group.barrier(site="conformance.changed")
    store.close("conformance.changes-done")
