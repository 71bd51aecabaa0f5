"""Where an execution stands. All of it is immutable and can be compared, so that a state is looked at once.

Work on a stream is an `Item`, named by the place of its instruction in the rank's list. It has one `Part`, or several
if it is a group of transfers, or none if it makes the stream wait. When a part comes it brings a *token* to the others,
who wait for tokens. `sure`: those that it waits for in any case; `perhaps`: those and the ones that it may wait for.

    ("member", "dp", 3, 1)      rank 1 has reached collective 3 on dp
    ("send", "dp", 0, 1, 2)     rank 0 has reached its send 2 to rank 1
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, TypeAlias

from tests.interpreter.language import Shape, View

Token: TypeAlias = tuple[Hashable, ...]
Places: TypeAlias = frozenset[float]
"""Items that are not done, by place; those that become done are taken out."""

NOTHING: Places = frozenset()


class Map(dict[Any, Any]):
    """A mapping that is not changed, but copied."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

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
    over: bool = False  # its host has found it over


class Part(NamedTuple):
    """A kernel (`what` is its name and `number` is bound) or a call."""

    what: str
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    number: int = 0
    call: Call | None = None


class Item(NamedTuple):
    """`after`: of a wait, what it waits for."""

    place: float
    parts: tuple[Part, ...] = ()
    after: Places = NOTHING
    kind: str | None = None  # the communicator's


class Thread(NamedTuple):
    """A host thread that is not at hand. `until`: the time that it still waits, in ms. `held`: its delay is over."""

    pc: int = 0
    number: int = 0
    end: str = ""
    asked: Places | None = None
    until: int | None = None
    held: bool = False


class Host(NamedTuple):
    """A rank. The first seven fields are those of the thread at hand, `parked` has the others. `asked`: of a read that
    was issued, the work that it waits for. `begun` and `over`: parts of items that are not done, as (place, number of
    the part). `freed`: buffers with the work that their memory is kept for. `alias`: which freed buffers a buffer's
    memory may be of. `shared`: the list of its threads. `kept`: what the rank put into modules. `graphs`: parts by
    name. `replays`: the work of each graph's last replay. `used`: which replay read a buffer's content last.
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
        """What a stream has to do."""
        return frozenset(item.place for item in self.queues[stream])

    def open_calls(self) -> list[Call]:
        """Calls that the rank has made and is not through with."""
        calls = [
            part.call
            for queue in self.queues
            for item in queue
            for number, part in enumerate(item.parts)
            if part.call is not None and (item.place, number) not in self.over
        ]
        return [*calls, *self.works.values()]


class State(NamedTuple):
    """`came`: tokens, with the elements that came with them. `flying`: messages by (sender, receiver, mailbox);
    `boxes`: those that arrived, by (rank, mailbox). `watched`: the notices that are due, (rank, peer, mailbox, place).
    `modules`: what modules would have if ranks shared them. `marks`: what has happened that a verdict must tell:

        unwritten   a read found memory that was never written
        leaked      a rank found in a module what another rank has put there
        left        the same, of what a run before has put there
        unordered   two threads use one list, one of them changes it, and nothing orders the two
        stale       a replay read what was not written since another replay read it
        lost        a NaN went into a maximum or minimum
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
