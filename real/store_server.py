"""The server of a program's store: a table, a thread that serves it, and the check of connections.

Each connection sends one line of JSON a message:

    ["job", word]                       first of all; `word` holds 16 random bytes of the parent, and the job's number
    ["set", key, value]                 no answer
    ["get", number, key]                answered by [number, value] as soon as the key has a value
    ["read", number, key]               answered by [number, value] at once; by null where the key has no value
    ["change", number, key, how, operands]      answered by [number, what the change tells]
    ["turn", at, before, message]       one of these, served when `before` was, where a run is made at gates (addresses)

Any process of this machine can connect: a port scan, a health check, another user. If a connection sends the word of
another job, the server reads its messages and never replies, as a stranger would. If it sends anything else, the server
closes it, without effect on other connections. Before a valid word, the server stores at most `UNKNOWN_BYTES` of a
connection.

The thread that serves a store may fail, for example because no descriptor is free. It calls `failed` before it closes
its sockets. Then the run is lost: it has no verdict, and dpsim reports the failed store. The errors that ranks get from
the closed store do not count.

    server = Server(listener, owner, "6c1f... 7", failed=print)
    server.start()                      # until its owner closes the connection
"""

from __future__ import annotations

import contextlib
import hmac
import json
import selectors
import socket
import threading
from collections.abc import Callable
from typing import Any

from dpsim.backend.journal.trouble import trouble
from dpsim.contract.gates import Address
from dpsim.contract.interface import Frozen
from dpsim.contract.rules.store_changes import changed, takes
from real.journal_reader import tuples
from real.mail import receive

ANSWER_SECONDS = 5.0
"""The deadline for sending a reply; then the server closes the connection."""

UNKNOWN_BYTES = 1 << 10
"""The limit for a first line; valid ones are shorter."""


class NoRequest(ValueError):
    """A connection sent something that no user of a store sends."""


class Server(threading.Thread):
    """A table, and the ranks that wait for its keys. Runs until its owner closes the connection."""

    def __init__(self, listener: socket.socket, owner: Any, job: str, failed: Callable[[str], None]) -> None:
        """`owner`: the address from which the owner connects. `failed`: called with the reason if this thread cannot
        continue.
        """
        super().__init__(name="store", daemon=True)
        self._job = job
        self._failed = failed
        self._known: set[Any] = set()
        """Connections that sent this job's word."""
        self._strange: set[Any] = set()
        """Connections that sent another job's word."""
        self._listener = listener
        self._owner = owner
        self._values: dict[str, Frozen] = {}
        self._waiting: dict[str, list[tuple[socket.socket, int]]] = {}
        self._beginnings: dict[socket.socket, bytes] = {}
        self.served: set[Address] = set()
        """The calls with a turn that were served."""
        self._standing: dict[Address, list[tuple[socket.socket, Address, list[Any]]]] = {}
        """By call: the later calls that wait until the server has served it."""

    def run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            try:
                while self._turn(selector):
                    pass
            except Exception as error:
                self._failed(f"a store cannot go on: {trouble(error) or f'{type(error).__name__}: {error}'}")
            finally:
                self._listener.close()  # first: a rank that sees its connection close must not connect again
                for connection in self._beginnings:
                    connection.close()

    def _turn(self, selector: selectors.BaseSelector) -> bool:
        for key, _ in selector.select():
            if key.fileobj is self._listener:
                self._accept(selector)
                continue
            connection: Any = key.fileobj
            try:
                stays = self._read_request(connection)
            except NoRequest:
                stays = False
            if not stays:
                selector.unregister(connection)
                del self._beginnings[connection]
                self._known.discard(connection)
                self._strange.discard(connection)
                connection.close()
                if key.data == self._owner:
                    return False
        return True

    def _accept(self, selector: selectors.BaseSelector) -> None:
        try:
            connection, caller = self._listener.accept()
        except ConnectionError:  # the peer has closed already
            return
        connection.settimeout(ANSWER_SECONDS)
        selector.register(connection, selectors.EVENT_READ, caller)
        self._beginnings[connection] = b""

    def _read_request(self, connection: socket.socket) -> bool:
        data = receive(connection)
        if not data or connection in self._strange:
            return bool(data)
        *lines, rest = (self._beginnings[connection] + data).split(b"\n")
        for line in lines:
            if connection in self._known:
                self._serve(connection, _message(line))
            elif connection not in self._strange:
                self._admit(connection, _message(line[:UNKNOWN_BYTES]))
        if connection in self._strange:
            rest = b""
        elif connection not in self._known and len(rest) > UNKNOWN_BYTES:
            raise NoRequest
        self._beginnings[connection] = rest
        return True

    def _admit(self, connection: socket.socket, message: list[Any]) -> None:
        match message:
            case ["job", str(word)]:
                same = hmac.compare_digest(word.encode(errors="replace"), self._job.encode())
                (self._known if same else self._strange).add(connection)
            case _:
                raise NoRequest

    def _serve(self, connection: socket.socket, message: list[Any]) -> None:
        match message:
            case ["set", str(key), value]:
                self._arrive(key, value)
            case ["change", int(number), str(key), str(how), list(operands)] if takes(how, operands):
                after = changed(how, tuples(self._values.get(key)), tuples(operands))
                if after.value is None:
                    self._values.pop(key, None)
                else:
                    self._arrive(key, after.value)
                self._answer(connection, number, after.answer)
            case ["get", int(number), str(key)] if key in self._values:
                self._answer(connection, number, self._values[key])
            case ["read", int(number), str(key)]:
                self._answer(connection, number, self._values.get(key))
            case ["get", int(number), str(key)]:
                self._waiting.setdefault(key, []).append((connection, number))
            case ["turn", [int(), str(), str(), int()] as at, None, list(inner)] if inner[:1] != ["turn"]:
                self._serve_in_turn(connection, _address(at), None, inner)
            case ["turn", [int(), str(), str(), int()] as at, [int(), str(), str(), int()] as before, list(inner)] if (
                inner[:1] != ["turn"]
            ):
                self._serve_in_turn(connection, _address(at), _address(before), inner)
            case _:
                raise NoRequest

    def _serve_in_turn(
        self, connection: socket.socket, at: Address, before: Address | None, message: list[Any]
    ) -> None:
        if before is not None and before not in self.served:
            self._standing.setdefault(before, []).append((connection, at, message))
            return
        self._serve(connection, message)
        self.served.add(at)
        for asker, later, inner in self._standing.pop(at, ()):
            self._serve_in_turn(asker, later, None, inner)

    def _arrive(self, key: str, value: Frozen) -> None:
        self._values[key] = value
        for asker, number in self._waiting.pop(key, ()):
            self._answer(asker, number, value)

    @staticmethod
    def _answer(asker: socket.socket, number: int, value: Frozen) -> None:
        try:
            asker.sendall(line_of([number, value]))
        except OSError:  # the peer has closed, which `_read_request` detects, or it does not read
            with_no_more(asker)


def _address(at: list[Any]) -> Address:
    rank, thread, site, ordinal = at
    return rank, thread, site, ordinal


def _message(line: bytes) -> list[Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise NoRequest from None
    if not isinstance(message, list):
        raise NoRequest
    return message


def line_of(message: list[Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def with_no_more(connection: socket.socket) -> None:
    """Ends sending on a connection, which may be closed already."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
