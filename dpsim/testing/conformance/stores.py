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

JOINED = (
    "The contract: join_store returns the store as soon as an actor listens at the port. A "
    "wrong backend finds no listener"
)
ANY_PORT = "The contract: port 0 means any free port, and open_store returns a store there. A wrong backend finds none"
NONE_IN_TIME = "get returns None when its time-out passes and no actor has set the key. A wrong backend returns a value"
AS_SET = "get returns the value with the type that another rank set. A wrong backend converts it"

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
    rank, ring = at.rank, at.host.ranks
    if at.host.index:
        where: Any = await rank.mailbox("store").get("conformance.where")
        joined = await rank.join_store(where[0], where[1], "conformance.join", timeout_ns=ENOUGH_NS)
        assert joined is not None, "a join: expected a store, got None. " + JOINED
        expect(
            "a joined store",
            (joined.node, joined.port),
            where,
            (
                "a joined store has the node and the port of the store that the first rank opened. A "
                "wrong backend joins another store"
            ),
        )
        return joined
    store = await rank.open_store(0, "conformance.open")
    assert store is not None, "port 0: expected a store, got None. " + ANY_PORT
    expect(
        "the node of a store",
        store.node,
        rank.node,
        "a rank opens a store on its own node. A wrong backend opens it on another node",
    )
    law = (
        "open_store returns None if another actor already listens at the port. A wrong backend "
        "opens a second store there"
    )
    expect("the same port again", await rank.open_store(store.port, "conformance.open.taken"), None, law)
    for other in ring[1:]:
        rank.send(other, "store", (store.node, store.port), "conformance.tell")
    return store


async def _shared(at: Round, store: Store) -> None:
    rank, group = at.rank, at.host
    if group.index == group.size - 1:
        for key, value in EVERYTHING.items():
            store.set(key, value, "conformance.set")
    for key, value in EVERYTHING.items():
        got = await store.get(key, "conformance.get")
        expect(f"the key {key}", got, value, AS_SET)
        expect(f"the type of {key}", type(got), type(value), AS_SET)
    for number in range(3):
        store.set(f"of.{rank.rank}", (rank.rank, number), "conformance.set.own")
    store.set(f"all.{rank.rank}", at.step, "conformance.set.all")
    for other in group.ranks:
        await store.get(f"all.{other}", "conformance.get.all", timeout_ns=ENOUGH_NS)
        law = (
            "get returns the value that a rank set last, because the sets of one rank arrive in "
            "order. A wrong backend returns an earlier value"
        )
        expect(f"the last of rank {other}", await store.get(f"of.{other}", "conformance.get.own"), (other, 2), law)
    nothing = await store.get("missing", "conformance.get.missing", timeout_ns=MOMENT_NS)
    expect("a key that no actor sets", nothing, None, NONE_IN_TIME)


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
        law = (
            "a get that waits returns None when the listener closes its store. A wrong backend "
            "returns a value, or waits without end"
        )
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
        assert again is not None, (
            "a port that was closed: expected a store, got None. The contract: a listener that closes "
            "its store frees the port. A wrong backend keeps it in use"
        )
        for other in group.ranks[1:]:
            law = "a value stays in the store after the rank that set it has closed its end. A wrong backend removes it"
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
    law = "an add reads and changes the key in one step. A wrong backend loses adds of ranks that race"
    expect("the count", await store.add("count", 0, "conformance.add.nothing"), size * (size + 1) // 2, law)
    first = await store.compare_set("first", "", group.index, "conformance.compare")
    law = (
        "compare_set changes a key only if it has the expected value, and returns the value after "
        "that. A wrong backend replaces the first value"
    )
    expect("the key first", await store.get("first", "conformance.get.first"), first, law)
    expect(
        "compare_set with another expected value",
        await store.compare_set("first", -1, 99, "conformance.compare.other"),
        first,
        law,
    )
    law = "delete returns whether the key had a value. A wrong backend returns the same in both cases"
    key = f"own.{group.index}"
    expect("a delete of a key without a value", await store.delete(key, "conformance.delete.nothing"), False, law)
    store.set(key, 1, "conformance.set.deleted")
    await store.get(key, "conformance.get.set")
    once = await store.get(key, "conformance.get.once", timeout_ns=0)
    expect(
        "a key that is read once", once, 1, "with a time-out of 0, get reads once. A wrong backend does not wait for it"
    )
    expect("a delete of a key with a value", await store.delete(key, "conformance.delete"), True, law)
    gone = await store.get(key, "conformance.get.deleted", timeout_ns=0)
    expect("a key that was deleted", gone, None, "a key has no value after delete. A wrong backend keeps the value")
    await group.barrier(site="conformance.changed")
    store.close("conformance.changes-done")
