"""Stores of programs: a table behind a real listening socket, served by a thread of the rank that opened it.

Each user of a store, including its listener, has a connection to it (`store_server` defines the messages). So the
values of one rank arrive in order. A store lives as long as its listener's connection. When that connection closes, or
its process ends for any reason, the socket closes, and ranks that wait get None.

A stranger accepts connections and never replies, and so does the store of another job. A rank that connects to it waits
until its time-out, as in the simulation, and no job uses a store of another one. If a stranger replies, the rank
ignores this.

    stores = Stores()
    store = yield from stores.opening(rank, 0, job)()        # None: another rank listens there
    other = yield from stores.joining(rank, 0, store.port, None, job)()

All sockets are on the loopback interface (`ports`). A time-out runs from the time of the request. So a time-out shorter
than the round trip passes even if the key has a value. With a time-out of 0, a rank asks for one read and waits for the
reply.

Rejected: torch's TCPStore on a socket that is already bound. Its waits cannot be interrupted, its users get various
errors when the listener leaves, and its values are bytes.
"""

from __future__ import annotations

import contextlib
import json
import queue
import select
import socket
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeAlias

from dpsim.backend.hosts.stores import JournaledStore
from dpsim.backend.hosts.work import Outcome
from dpsim.backend.journal.journal import Journal
from dpsim.contract.gates import Address, Gate
from dpsim.contract.interface import Frozen
from real.journal_reader import tuples
from real.mail import receive
from real.ports import listen, reach
from real.store_server import Server, line_of, with_no_more
from real.waiting import Patience, Unfinished

Turn: TypeAlias = tuple[()] | tuple[Address, Address | None]
"""A call and the call that the store serves before it, if the world has gates of another run."""


def in_turn(message: list[Any], turn: Turn) -> list[Any]:
    """Returns the message of a call with a turn."""
    return ["turn", *turn, message] if turn else message


CLOSE_SECONDS = 10.0
"""The deadline for a server to close its sockets, which takes no time if each user reads its replies."""

REPLY_NS = 10_000_000_000
"""The deadline for the reply to one read. Only a listener that is no store of this job misses it."""


class StoreConnection:
    """A connection to a store. A separate thread reads the replies."""

    def __init__(self, connection: socket.socket, job: str) -> None:
        self.name = connection.getsockname()
        self._socket = connection
        self._lock = threading.Lock()
        self._asked: dict[int, queue.SimpleQueue[Frozen]] = {}
        self._number = 0
        self._over = False
        with contextlib.suppress(OSError):  # the listener has gone, which the reader detects
            connection.sendall(line_of(["job", job]))
        threading.Thread(target=self._read, name="store answers", daemon=True).start()

    def ask(self, key: str, patience: Patience, turn: Turn = (), how: str = "get") -> queue.SimpleQueue[Frozen]:
        """Returns a box that will receive the value; None, if the listener leaves before there is one. `how`: "read"
        receives None, too, if the key has no value now.
        """
        return self._question(how, [key], patience, turn)

    def change(
        self, key: str, how: str, operands: Sequence[Any], patience: Patience, turn: Turn = ()
    ) -> queue.SimpleQueue[Frozen]:
        """Returns a box that will receive the answer to a change; None, if the listener leaves first."""
        return self._question("change", [key, how, operands], patience, turn)

    def _question(self, what: str, about: list[Any], patience: Patience, turn: Turn) -> queue.SimpleQueue[Frozen]:
        answer: queue.SimpleQueue[Frozen] = queue.SimpleQueue()
        with self._lock:
            self._number += 1
            if self._over:
                answer.put(None)
            else:
                self._asked[self._number] = answer
            self._send(in_turn([what, self._number, *about], turn), patience)
        return answer

    def set(self, key: str, value: Frozen, patience: Patience, turn: Turn = ()) -> None:
        with self._lock:
            self._send(in_turn(["set", key, value], turn), patience)

    def close(self) -> None:
        """Closes the connection after its messages have been sent. Does not wait."""
        with self._lock:
            if not self._over:
                with_no_more(self._socket)

    def _send(self, message: list[Any], patience: Patience) -> None:
        """Sends as to a mailbox: waits only if the socket is full. If the receiver has gone, the message is lost."""
        data, connection = line_of(message), self._socket
        try:
            while data and not self._over:
                try:
                    data = data[connection.send(data, socket.MSG_DONTWAIT) :]
                except BlockingIOError:
                    patience.until(lambda: bool(select.select([], [connection], [], 0)[1]))
        except ConnectionError:
            pass
        except Unfinished:  # perhaps within a message
            with_no_more(connection)
            raise

    def _read(self) -> None:
        rest, strange = b"", False
        while data := receive(self._socket):
            if strange:
                continue
            *lines, rest = (rest + data).split(b"\n")
            try:
                for line in lines:
                    number, value = json.loads(line)
                    self._asked.pop(number).put(tuples(value))
            except (ValueError, TypeError, LookupError, RecursionError):  # the listener there is no store
                strange = True
        with self._lock:
            self._over = True
            self._socket.close()
        for answer in self._asked.values():
            answer.put(None)


class StoreOwner(Protocol):
    """The methods of a rank that a store uses."""

    journal: Journal
    patience: Patience

    @property
    def node(self) -> int:
        """The rank's node."""

    def handed_out(self, store: RealStore) -> RealStore:
        """Returns the store in the form in which a program gets it."""


class RealStore(JournaledStore):
    """A store, as one rank uses it. `server`: set if the rank listens itself."""

    __slots__ = ("_line", "_rank", "server")

    def __init__(self, rank: StoreOwner, node: int, port: int, line: StoreConnection, server: Server | None) -> None:
        super().__init__(rank.journal, node, port)
        self._rank = rank
        self._line = line
        self.server = server

    def _put(self, key: str, value: Frozen) -> None:
        self._line.set(key, value, self._rank.patience, self._turn())

    def _get(self, key: str, timeout_ns: int | None) -> Outcome:
        gate, turn = self.journal.gate(), self._turn()

        def outcome() -> Generator[Any, Any, Frozen]:
            patience = self._rank.patience
            if gate is not None and gate.learns == (None,):
                patience.check()
                patience.sleep(timeout_ns or 0)
                return None
            if gate is None and timeout_ns == 0:
                return patience.answer(self._line.ask(key, patience, turn, "read"), REPLY_NS)
            limit = timeout_ns if gate is None else None
            return patience.answer(self._line.ask(key, patience, turn), limit)
            yield

        return outcome

    def _turn(self) -> Turn:
        if not self.journal.shared.world.gates:
            return ()
        return self.journal.here(), self.journal.served_after()

    def _change(self, key: str, how: str, operands: tuple[Any, ...]) -> Outcome:
        answer = self._line.change(key, how, operands, self._rank.patience, self._turn())

        def outcome() -> Generator[Any, Any, Frozen]:
            return self._rank.patience.answer(answer, None)
            yield

        return outcome

    def _close(self) -> None:
        server = self.server
        if server is not None:
            before = self.journal.served_after() if self.closed else None
            if before is not None:  # with a gate, the listener leaves only after the server has served the others
                self._rank.patience.until(lambda: before in server.served)
        self._line.close()
        if server is not None:
            server.join(CLOSE_SECONDS)
            self.server = None


class Stores:
    """The stores of a rank, for one job, which each call names. True while one of them listens."""

    def __init__(self) -> None:
        self._stores: list[RealStore] = []
        self.failed: Callable[[str], None] = lambda what: None
        """Called with the reason when the thread of a listening store fails."""

    def __bool__(self) -> bool:
        return any(store.server is not None for store in self._stores)

    def opening(self, rank: StoreOwner, port: int, job: str) -> Outcome:
        """Listens. The outcome is the store, or None. For the last recorded call."""
        gate = rank.journal.gate()
        return lambda: self._open(rank, port, job, gate)

    def joining(self, rank: StoreOwner, node: int, port: int, timeout_ns: int | None, job: str) -> Outcome:
        """Connects. The outcome is the store, or None. For the last recorded call."""
        gate = rank.journal.gate()
        return lambda: self._join(rank, node, port, timeout_ns, job, gate)

    def _open(self, rank: StoreOwner, port: int, job: str, gate: Gate | None) -> Generator[Any, Any, RealStore | None]:
        if gate is None:
            listener = listen(rank.node, port)
        elif gate.learns == (None,):  # another process has the port by then
            taken = rank.patience.attempt(lambda: reach(rank.node, port), None)
            assert taken is not None, "an attempt without a limit"
            taken.close()
            return None
        else:
            listener = rank.patience.attempt(lambda: listen(rank.node, port), None)
        if listener is None:
            return None
        port = listener.getsockname()[1]
        own = reach(rank.node, port)
        assert own is not None, "the listener of this rank accepts connections"
        line = StoreConnection(own, job)
        server = Server(listener, line.name, job, self.failed)
        server.start()
        return self._kept(RealStore(rank, rank.node, port, line, server))
        yield  # a generator, as the contract requires, that never suspends

    def _join(
        self, rank: StoreOwner, node: int, port: int, timeout_ns: int | None, job: str, gate: Gate | None
    ) -> Generator[Any, Any, RealStore | None]:
        if gate is not None and gate.learns == (None,):
            rank.patience.check()
            rank.patience.sleep(timeout_ns or 0)
            return None
        found = rank.patience.attempt(lambda: reach(node, port), timeout_ns if gate is None else None)
        return None if found is None else self._kept(RealStore(rank, node, port, StoreConnection(found, job), None))
        yield

    def close(self) -> None:
        """Closes all stores: the rank has ended."""
        for store in self._stores:
            store._close()
        self._stores.clear()

    def _kept(self, store: RealStore) -> RealStore:
        self._stores.append(store)
        return store._rank.handed_out(store)
