"""The state of an execution of hosts. All its parts are immutable and comparable.

A member's share of a host call is a `Part`. It exists from the call on, and it ends in the background, whether or not
its host looks. It ends at a moment at which all tokens of `sure` have come, and no rank of `sources` has left. Tokens
are those of `tests.interpreter.state`: a member's arrival at a call. If the part does not end although it could, it
waits for the tokens of `perhaps` too.

    ("member", "h", 3, 1)      rank 1 has made call 3 on communicator h
    ("send", "h", 0, 1, 2)     rank 0 has made its send 2 to rank 1
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.interpreter.language import Shape, learned
from tests.interpreter.state import Map, Token


class Part(NamedTuple):
    """A rank's part in a call. `sources`: the ranks on which it depends, itself included."""

    op: str
    shape: Shape
    kind: str
    token: Token
    sources: frozenset[int]
    sure: frozenset[Token]
    perhaps: frozenset[Token]
    over: bool = False


class Thread(NamedTuple):
    """A host thread. `until`: the rest of its sleep or time-out in ms."""

    pc: int = 0
    number: int = 0
    end: str = ""
    until: int | None = None


class Host(NamedTuple):
    """A rank. `calls`: the number of its calls on each communicator, and of its transfers with each peer. `stores`: the
    tables that it has open, by name.
    """

    threads: Map
    learned: tuple[tuple[int, Any], ...] = ()
    flags: frozenset[str] = frozenset()
    calls: Map = Map()
    parts: Map = Map()
    aborted: frozenset[str] = frozenset()
    stores: Map = Map()

    @property
    def ended(self) -> bool:
        return all(thread.end for thread in self.threads.values())

    @property
    def dead(self) -> bool:
        return any(thread.end == "died" for thread in self.threads.values())


class Table(NamedTuple):
    """The keys behind a port, from one `open` to the listener's `close`. `on_way`: by rank, the values sent."""

    port: int
    keys: Map = Map()
    on_way: Map = Map()
    listener: int = 0
    closed: bool = False


class State(NamedTuple):
    """The state of all ranks. `left`: (communicator, rank) of the aborts that peers feel. `flying`, `boxes`: messages
    under way, by (sender, receiver, mailbox), and arrived ones. `watched`: notices that are due. `tied`: two sleeps or
    time-outs ended at the same instant.
    """

    hosts: tuple[Host, ...]
    came: Map = Map()
    left: frozenset[tuple[str, int]] = frozenset()
    flying: Map = Map()
    boxes: Map = Map()
    watched: frozenset[tuple[int, int, str, int]] = frozenset()
    tables: tuple[Table, ...] = ()
    tied: bool = False

    def with_host(self, rank: int, **new: Any) -> State:
        hosts = (*self.hosts[:rank], self.hosts[rank]._replace(**new), *self.hosts[rank + 1 :])
        return self._replace(hosts=hosts)

    def with_thread(self, rank: int, name: str, **new: Any) -> State:
        threads = self.hosts[rank].threads
        return self.with_host(rank, threads=threads.plus(name, threads[name]._replace(**new)))

    def with_part(self, rank: int, handle: str, **new: Any) -> State:
        parts = self.hosts[rank].parts
        return self.with_host(rank, parts=parts.plus(handle, parts[handle]._replace(**new)))

    def goes_on(self, rank: int, name: str) -> State:
        return self.with_thread(rank, name, pc=self.hosts[rank].threads[name].pc + 1, until=None)

    def learns(self, rank: int, name: str, value: Any) -> State:
        """Notes the value, sorted by place: the outcome does not show the order in which threads noted values."""
        host = self.hosts[rank]
        thread = host.threads[name]
        noted = tuple(sorted((*host.learned, (thread.pc, value)), key=lambda one: one[0]))
        changed = self.with_thread(rank, name, number=learned(thread.number, value)).goes_on(rank, name)
        return changed.with_host(rank, learned=noted)

    def pending(self) -> list[tuple[str, int]]:
        """Returns the aborts whose rank has not left yet."""
        return [
            (kind, rank)
            for rank, host in enumerate(self.hosts)
            for kind in host.aborted
            if (kind, rank) not in self.left
        ]
