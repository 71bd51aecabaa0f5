"""Tests of strangers that connect to a store's socket: whatever they send, the store closes only their connection."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from real.mail import receive
from real.ports import listen, reach
from real.store_server import UNKNOWN_BYTES, NoRequest, Server, line_of
from real.stores import StoreConnection
from real.waiting import Patience

JOB = "5e" * 16 + " 1"
HELLO = line_of(["job", JOB])
PATIENCE = Patience(threading.Event(), polls=True)


class Served:
    """A store of this job that listens, and the message of its thread if that fails."""

    def __init__(self) -> None:
        listener = listen(0, 0)
        assert listener is not None
        self.port: int = listener.getsockname()[1]
        self.failed: list[str] = []
        self.own = StoreConnection(self.reached(), JOB)
        self.server = Server(listener, self.own.name, JOB, self.failed.append)
        self.server.start()

    def reached(self) -> socket.socket:
        connection = reach(0, self.port)
        assert connection is not None
        connection.settimeout(5)
        return connection

    def works(self) -> bool:
        """Returns whether a member of the job can set and read a key."""
        member = StoreConnection(self.reached(), JOB)
        member.set("key", 7, PATIENCE)
        value = PATIENCE.answer(member.ask("key", PATIENCE), 5_000_000_000)
        member.close()
        return value == 7


@pytest.fixture
def served() -> Iterator[Served]:
    one = Served()
    yield one
    one.own.close()
    one.server.join(5)
    assert not one.server.is_alive()


GARBAGE = {
    "a word": b"GET / HTTP/1.0\r\n\r\n",
    "no text": b"\xff\xfe\n",
    "nothing": b"\n",
    "an object": b"{}\n",
    "a number": b"7\n",
    "an empty array": b"[]\n",
    "a request before the word": line_of(["set", "key", 8]),
    "a word that is none": line_of(["job", 7]),
    "two words": line_of(["job", JOB, JOB]),
    "deep": b"[" * 900 + b"\n",
    "no newline": b"x" * (1 << 20),
    "a long line": b'["job", "' + b"x" * (1 << 20) + b'"]\n',
    "a list as key": HELLO + line_of(["set", [1], 8]),
    "an object as key": HELLO + line_of(["get", 1, {}]),
    "another request": HELLO + line_of(["add", "key", 1]),
    "a turn within a turn": HELLO + line_of(["turn", [0, "m", "s", 0], None, ["turn", [0, "m", "s", 1], None, []]]),
    "a turn of no address": HELLO + line_of(["turn", [[]], None, ["set", "key", 8]]),
    "too few fields": HELLO + line_of(["get", 1]),
    "garbage behind the word": HELLO + b"\x00\x01\n",
}


@pytest.mark.parametrize("said", GARBAGE.values(), ids=GARBAGE)
def test_bytes_that_are_no_request_close_only_their_connection(served: Served, said: bytes) -> None:
    stranger = served.reached()
    with stranger:
        with contextlib.suppress(ConnectionError):  # cut off in the middle
            stranger.sendall(said)
        assert receive(stranger) == b""
    assert served.works()
    assert served.failed == []


def test_twin_a_server_that_fails_on_a_message_ends(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin: an error that is the server's own ends its thread with a message, so that the run is lost."""

    def fails(server: Server, connection: socket.socket, message: list[Any]) -> None:
        raise AssertionError("as planned")

    monkeypatch.setattr(Server, "_serve", fails)
    with served.reached() as member:
        member.sendall(HELLO + line_of(["get", 1, "key"]))
        assert receive(member) == b""
    assert served.failed == ["a store cannot go on: AssertionError: as planned"]


def test_another_word_is_never_answered_and_keeps_no_memory(served: Served) -> None:
    with served.reached() as other:
        other.sendall(line_of(["job", "5e" * 16 + " 2"]))
        for _ in range(20):
            other.sendall(b"x" * (1 << 16))
        other.sendall(b"\n" + line_of(["set", "key", 8]) + line_of(["get", 1, "key"]))
        assert served.works()
        other.settimeout(0.1)
        with pytest.raises(TimeoutError):
            other.recv(1)
        assert max(map(len, served.server._beginnings.values())) <= UNKNOWN_BYTES


def test_a_server_keeps_few_bytes_of_an_unknown_connection(served: Served) -> None:
    with served.reached() as stranger:
        stranger.sendall(b"x" * UNKNOWN_BYTES)
        assert served.works()
        assert max(map(len, served.server._beginnings.values())) <= UNKNOWN_BYTES


ANSWERS = [b"HTTP/1.0 400 Bad Request\r\n\r\n", b"[1]\n", b"[99,1]\n", b'[[],1]\n{"a":1}\n', b"[" * 100_000 + b"\n"]


@pytest.mark.parametrize("answer", ANSWERS, ids=range(len(ANSWERS)))
def test_an_answer_of_a_stranger_is_ignored(answer: bytes) -> None:
    """Lets another program answer on the store's port. Calls on it time out, and return None when the program closes
    the connection.
    """
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        connection = reach(0, listener.getsockname()[1])
        assert connection is not None
        member = StoreConnection(connection, JOB)
        theirs, _ = listener.accept()
    asked = member.ask("key", PATIENCE)
    with theirs:
        theirs.sendall(answer)
        assert PATIENCE.answer(asked, 50_000_000) is None
        theirs.sendall(line_of([1, "too late"]))
        assert PATIENCE.answer(member.ask("other", PATIENCE), 50_000_000) is None
    assert PATIENCE.answer(asked, 5_000_000_000) is None
    member.close()


def test_messages_of_a_known_connection_may_be_long(served: Served) -> None:
    served.own.set("long", "x" * (3 << 20), PATIENCE)
    value: Any = PATIENCE.answer(served.own.ask("long", PATIENCE), 5_000_000_000)
    assert len(value) == 3 << 20


def test_any_message_is_served_or_is_no_request(served: Served) -> None:
    """Sends each JSON value in place of each part of a request. The server serves it or raises NoRequest."""
    parts: list[Any] = [None, True, 1, -1, 1.5, "", "key", [], ["key"], {}, {"key": 1}, "\ud800"]
    with served.reached() as connection:
        for what in ("job", "set", "get", 7, None):
            for one in parts:
                for other in parts:
                    with contextlib.suppress(NoRequest):
                        served.server._serve(connection, json.loads(json.dumps([what, one, other])))
        for how in ("add", "compare_set", "delete", "other"):
            for operands in ([], *([one] for one in parts), *([one, other] for one in parts for other in parts)):
                with contextlib.suppress(NoRequest):
                    served.server._serve(connection, json.loads(json.dumps(["change", 1, "key", how, operands])))
