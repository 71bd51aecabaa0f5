"""Reads and writes messages between dpsim and the process of a rank: JSON, and the bytes of arrays.

    pipe = Pipe(socket)
    pipe.send(["wait", 4])
    pipe.flush()
    message, blocks = pipe.receive()

A message is a JSON list whose first item is its name. The pipe carries no pickled objects. `checked` refuses items of
other types than the name requires (`Garbled`).

    frame: length of the text, number of blocks, length of each block | the text | the blocks
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, TypeAlias

Form: TypeAlias = tuple[type | tuple[type, ...], ...]
"""The types of the items of a message after its name."""

HEAD = struct.Struct("<II")
LENGTH = struct.Struct("<Q")
MUCH = 1 << 16
"""The size of one read, in bytes. A pipe with more unsent bytes than this writes them."""
LONGEST_TEXT = 1 << 24
MOST_BLOCKS = 1 << 16
LONGEST_BLOCK = 1 << 36
"""The largest text, number of blocks and block that a pipe reads, so that wrong bytes cannot use up the memory."""


class Garbled(RuntimeError):
    """The bytes that arrived are no valid message."""


class Closed(Exception):
    """The other side closed the pipe, because its process has ended."""


class Pipe:
    """One end of a socket. A pipe collects messages until `flush`, or until they exceed `MUCH` bytes."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self._out: list[bytes] = []
        self._size = 0
        self._held = bytearray()
        self._sending = Lock()

    def send(self, message: Sequence[Any], blocks: Sequence[bytes] = ()) -> None:
        """Adds a message and its blocks. Raises Closed if the other side ended, and TimeoutError of the socket."""
        text = json.dumps(message, separators=(",", ":")).encode()
        head = HEAD.pack(len(text), len(blocks)) + b"".join([LENGTH.pack(len(block)) for block in blocks])
        self._out += (head, text, *blocks)
        self._size += len(text) + sum(map(len, blocks))
        if self._size > MUCH:
            self.flush()

    def flush(self) -> None:
        """Writes all collected messages to the socket."""
        out, self._out, self._size = b"".join(self._out), [], 0
        self._write(out)

    def urge(self, message: Sequence[Any]) -> None:
        """Writes a message at once, from any thread. The collected messages follow later. Raises Closed."""
        text = json.dumps(message).encode()
        self._write(HEAD.pack(len(text), 0) + text)

    def _write(self, out: bytes) -> None:
        try:
            with self._sending:
                self.end.sendall(out)
        except (BrokenPipeError, ConnectionError):
            raise Closed from None

    def receive(self) -> tuple[list[Any], list[bytes]]:
        """Reads a message and its blocks. Raises Closed, Garbled, and TimeoutError if the socket has a time-out."""
        length, count = HEAD.unpack(self._some(HEAD.size))
        if length > LONGEST_TEXT or count > MOST_BLOCKS:
            raise Garbled(f"a message of {length:,} bytes and {count:,} arrays; expected fewer")
        lengths = [LENGTH.unpack(self._some(LENGTH.size))[0] for _ in range(count)]
        if any(one > LONGEST_BLOCK for one in lengths):
            raise Garbled(f"an array of {max(lengths):,} bytes; expected at most {LONGEST_BLOCK:,}")
        text = self._some(length)
        blocks = [self._some(one) for one in lengths]
        try:
            message = json.loads(text)
        except ValueError as error:
            raise Garbled(f"a message that is no JSON: {error}") from None
        return message, blocks

    def close(self) -> None:
        self.end.close()

    def _some(self, length: int) -> bytes:
        held = self._held
        while len(held) < length:
            try:
                more = self.end.recv(max(length - len(held), MUCH))
            except ConnectionError:
                raise Closed from None
            if not more:
                raise Closed
            held += more
        found = bytes(held[:length])
        del held[:length]
        return found


def checked(message: Any, forms: Mapping[str, Form]) -> list[Any]:
    """Returns the message if its items have the types in `forms`. Raises Garbled otherwise.

    >>> checked(["step", 3], {"step": (int,)})
    ['step', 3]
    >>> checked(["step", "three"], {"step": (int,)})
    Traceback (most recent call last):
    ...
    dpsim.torch.wire.Garbled: the message ['step', 'three'] has another form
    """
    if isinstance(message, list) and message and isinstance(message[0], str) and message[0] in forms:
        form = forms[message[0]]
        if len(form) == len(message) - 1 and all(map(isinstance, message[1:], form)):
            return message
    raise Garbled(f"the message {str(message)[:200]} has another form")
