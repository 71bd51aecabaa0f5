"""The state of an execution in the interpreter. All its parts are immutable and comparable, so that the interpreter
visits each state once.

Work on a stream is an `Item`, which is named by the place of its instruction in the rank's list. An item has one
`Part`, several parts for a group of transfers, or none if it makes the stream wait. When a part of a collective or
transfer arrives, it adds a *token* to the state, for which its peers wait. `sure`: tokens for which a part always
waits; `perhaps`: these, and the tokens for which it may wait.

    ("member", "dp", 3, 1)      rank 1 has arrived at collective 3 on dp
    ("send", "dp", 0, 1, 2)     rank 0 has arrived at its send 2 to rank 1
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, TypeAlias

from tests.interpreter.language import Shape, View

Token: TypeAlias = tuple[Hashable, ...]
Places: TypeAlias = frozenset[float]
"""Unfinished items, by place. When an item is done, `device.done` removes it."""

NOTHING: Places = frozenset()


class Map(dict[Any, Any]):
    """An immutable mapping; `plus` and `minus` return copies."""

    _hash: int | None = None

    def __hash__(self) -> int:  # type: ignore[override]
        if self._hash is None:
            self._hash = hash(frozenset(self.items()))
        return self._hash

    def plus(self, key: Any, value: Any) -> Map:
        return Map({**self, key: value})

    def minus(self, key: Any) -> Map:
        return Map({name: value for name, value in self.items() if name != key})


class Call(NamedTuple):
    """A member's part in a collective or transfer."""

    op: str
    shape: Shape
    kind: str
    token: Token
    sure: frozenset[Token]
    perhaps: frozenset[Token]
    over: bool = False  # a query of its host returned True


class Part(NamedTuple):
    """A kernel (`what` is its name, `number` its argument) or a part of a collective or transfer."""

    what: str
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    number: int = 0
    call: Call | None = None


class Item(NamedTuple):
    """An entry of a stream's queue. `after`: if the item is a wait, the items for which it waits."""

    place: float
    parts: tuple[Part, ...] = ()
    after: Places = NOTHING
    kind: str | None = None  # the kind of the communicator


class Thread(NamedTuple):
    """A host thread other than the current one. `until`: the rest of its sleep in ms. `held`: its delay is over."""

    pc: int = 0
    number: int = 0
    end: str = ""
    asked: Places | None = None
    until: int | None = None
    held: bool = False


class Host(NamedTuple):
    """A rank. The first seven fields belong to the current thread; `parked` has the other threads. `asked`: the work
    for which an issued read waits. `begun` and `over`: parts of unfinished items, as (place, number of the part).
    `freed`: buffers with the work that keeps their memory. `alias`: the freed buffers whose memory a buffer may have.
    `shared`: the list of its threads. `kept`: what the rank wrote into modules. `graphs`: parts by name. `replays`: the
    items of each graph's last replay. `used`: which replay last read a buffer's contents.
    """

    pc: int = 0
    number: int = 0
    end: str = ""
    asked: Places | None = None
    until: int | None = None
    held: bool = False
    thread: str = "main"
    parked: Map = Map()
    flags: frozenset[str] = frozenset()
    shared: tuple[int, ...] = ()
    kept: Map = Map()
    learned: tuple[tuple[int, Any], ...] = ()
    queues: tuple[tuple[Item, ...], ...] = ()
    begun: frozenset[tuple[float, int]] = frozenset()
    over: frozenset[tuple[float, int]] = frozenset()
    memory: Map = Map()
    events: Map = Map()
    marks: Map = Map()
    freed: tuple[tuple[str, Places], ...] = ()
    alias: Map = Map()
    calls: Map = Map()
    works: Map = Map()
    graphs: Map = Map()
    replays: Map = Map()
    used: Map = Map()

    def pending(self, stream: int) -> Places:
        """Returns the places of the unfinished items of a stream."""
        return frozenset(item.place for item in self.queues[stream])

    def open_calls(self) -> list[Call]:
        """Returns the calls that the rank has made and that have not ended."""
        calls = [
            part.call
            for queue in self.queues
            for item in queue
            for number, part in enumerate(item.parts)
            if part.call is not None and (item.place, number) not in self.over
        ]
        return [*calls, *self.works.values()]


class State(NamedTuple):
    """The state of all ranks. `came`: tokens that arrived, with their elements. `flying`: messages by (sender,
    receiver, mailbox); `boxes`: those that arrived, by (rank, mailbox). `watched`: notices that are due, (rank, peer,
    mailbox, place). `modules`: the objects of modules if ranks shared them. `marks`: events that a verdict must report:

        unwritten   a read found memory that was never written
        leaked      a rank found in a module a value that another rank has written
        left        a rank found in a module a value that an earlier run has written
        unordered   two threads use one list, one of them changes it, and no flag orders the two
        stale       a replay read contents that another replay has already read
        lost        a NaN was an input of a maximum or minimum
        rounded     a floating-point sum depends on the order of its terms
        tied        a time-out and something else were due at the same time
    """

    hosts: tuple[Host, ...]
    came: Map = Map()
    flying: Map = Map()
    boxes: Map = Map()
    watched: frozenset[tuple[int, int, str, int]] = frozenset()
    modules: Map = Map()
    marks: frozenset[str] = frozenset()

    def marked(self, *marks: str) -> State:
        return self._replace(marks=self.marks | {*marks}) if marks else self

    def with_host(self, rank: int, host: Host) -> State:
        return self._replace(hosts=(*self.hosts[:rank], host, *self.hosts[rank + 1 :]))


def elements(memory: Mapping[str, tuple[int | None, ...]], view: View) -> tuple[int | None, ...]:
    buffer, first, end = view
    return memory[buffer][first:end]
