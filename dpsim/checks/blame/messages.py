"""Messages: which actors may end a wait, because they post to a mailbox, set a store's key, or listen at a port.

No record says which actor should have sent a message, but the run shows which actors communicate:

    messages = MessageIndex(run.journals)
    messages.posters(2, "outputs")          # actors that posted to outputs of actor 2, or got posts of actor 2
    messages.setters(2, (0, 49152), "up/1") # actors that set this key of the store at port 49152, or listen there

Suppose that an actor waits at a mailbox, and has neither posted nor received anything so far. Then the index returns
the senders to mailboxes of the same name on other actors.

An actor may also wait for a key of a store that it serves itself. If no actor sets this key, the wait is for
the actors that joined the store, or that learned its port from a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from dpsim.checks.blame.places import form
from dpsim.contract.ops import (
    ADDRESS,
    KIND,
    LEARNED_OUTCOME,
    POST_CONTENT,
    POST_MAILBOX,
    POST_TO,
    STORE_HOW,
    STORE_KEY,
    STORE_NODE,
    STORE_PORT,
    RawRecord,
)

Place: TypeAlias = tuple[int, int]
"""A store: the node and the port."""

Actors: TypeAlias = dict[int, None]
"""A set of actors that keeps the order of insertion."""


class MessageIndex:
    """The posts and store accesses of a run.

    `posts` maps (receiver, mailbox) to senders, and `boxes` maps a mailbox name to the senders to any actor. `wrote`
    maps a sender to the contents that it sent to each receiver. `listeners` and `joined` map a store to the actors that
    serve it and that joined it. `sets` maps a store to the actors that set each key.
    """

    def __init__(self, journals: Sequence[Sequence[RawRecord]]) -> None:
        self.posts: dict[tuple[int, str], Actors] = {}
        self.boxes: dict[str, Actors] = {}
        self.wrote: dict[int, dict[int, list[Any]]] = {}
        self.listeners: dict[Place, Actors] = {}
        self.joined: dict[Place, Actors] = {}
        self.sets: dict[Place, dict[str, Actors]] = {}
        for actor, journal in enumerate(journals):
            opened: dict[Any, tuple[str, int]] = {}
            for raw in journal:
                kind = raw[KIND]
                if kind == "post":
                    self._post(actor, raw)
                elif kind == "store":
                    self._store(actor, raw, opened)
                elif kind == "learned" and raw[LEARNED_OUTCOME] is not None and raw[ADDRESS] in opened:
                    how, node = opened[raw[ADDRESS]]
                    candidates = self.listeners if how == "open" else self.joined
                    candidates.setdefault((node, raw[LEARNED_OUTCOME]), {})[actor] = None

    def _post(self, actor: int, raw: RawRecord) -> None:
        to, box = raw[POST_TO], raw[POST_MAILBOX]
        self.posts.setdefault((to, box), {})[actor] = None
        self.boxes.setdefault(box, {})[actor] = None
        self.wrote.setdefault(actor, {}).setdefault(to, []).append(raw[POST_CONTENT])

    def _store(self, actor: int, raw: RawRecord, opened: dict[Any, tuple[str, int]]) -> None:
        how = raw[STORE_HOW]
        if how in ("open", "join"):
            opened[raw[ADDRESS]] = how, raw[STORE_NODE]
        elif how == "set":
            keys = self.sets.setdefault((raw[STORE_NODE], raw[STORE_PORT]), {})
            keys.setdefault(raw[STORE_KEY], {})[actor] = None

    def posters(self, actor: int, box: str) -> tuple[int, ...]:
        """Returns the actors that may post to mailbox `box` of `actor`, the likeliest first."""
        setters_so_far = self.posts.get((actor, box), {}) | dict.fromkeys(self.wrote.get(actor, {}))
        return _others(actor, setters_so_far or self.boxes.get(box, {}))

    def setters(self, actor: int, place: Place, key: str) -> tuple[int, ...]:
        """Returns the actors that may set `key` of the store at `place`, for the `actor` that waits for the key."""
        listeners, keys = self.listeners.get(place, {}), self.sets.get(place, {})
        setters_so_far = _others(actor, keys.get(key, {}))
        if setters_so_far or actor not in listeners:
            return setters_so_far or _others(actor, listeners)
        informed = [
            to for to, contents in self.wrote.get(actor, {}).items() if any(_has(one, place[1]) for one in contents)
        ]
        did = {one for other, actors in keys.items() if form(other) == form(key) for one in actors}
        candidates = _others(actor, [*self.joined.get(place, {}), *informed])
        return tuple(one for one in dict.fromkeys(candidates) if one not in did)


def _others(actor: int, actors: Iterable[int]) -> tuple[int, ...]:
    return tuple(one for one in actors if one != actor)


def _has(content: Any, port: int) -> bool:
    return isinstance(content, tuple) and port in content
