"""Mailboxes between processes: one UNIX stream socket a rank or service, in a folder of the parent's.

A sender connects at its first message to a rank and keeps the connection, so what one sender sent comes in order. A
thread of the receiver reads all connections and puts each message into its box as it arrives. One line a message, a
JSON array of the job's number, the box and the message; what belongs to an earlier job is dropped, so a message that
nobody took does not reach the next program. Socket and thread begin with the first job: a worker in reserve has the
number, and with it the path, of one that works.

Sending does not wait for the receiver's program, only (and interruptibly) for its reader when the socket is full. A
message to a process that has gone is lost, as anything sent to the dead.

    mail = Mail(folder, worker=0)
    mail.begin(job=7, size=2)
    mail.post(1, "work", ("start", 3), Patience(...))
    message = mail.box("work").get()
"""

from __future__ import annotations

import json
import queue
import select
import selectors
import socket
import threading
from typing import Any

from dpsim.interface import Frozen
from real.journal_reader import tuples
from real.messages import worker_of
from real.waiting import Patience, Unfinished

CHUNK = 1 << 16


class Mail:
    """All mailboxes of this process, and its way to those of the others. One for the life of a worker."""

    def __init__(self, folder: str, worker: int) -> None:
        self._folder = folder
        self._job = 0
        self._size = 0
        self._boxes: dict[str, queue.SimpleQueue[Frozen]] = {}
        self._lock = threading.Lock()
        self._peers: dict[tuple[int, bool], socket.socket] = {}
        self._worker = worker
        self._listener: socket.socket | None = None

    def begin(self, job: int, size: int) -> None:
        """From now on only messages of this job are taken in, a world of `size` ranks; before anybody may have begun
        it.
        """
        if self._listener is None:
            self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._listener.bind(self._path(self._worker))
            self._listener.listen(256)
            threading.Thread(target=self._read, args=(self._listener,), name="mail", daemon=True).start()
        with self._lock:
            self._job, self._size = job, size
            self._boxes = {}

    @property
    def job(self) -> str:
        """The job, told apart from those of other pools on this machine."""
        return f"{self._folder} {self._job}"

    def box(self, name: str) -> queue.SimpleQueue[Frozen]:
        """The messages of a box, in the order in which they arrived."""
        with self._lock:
            return self._boxes.setdefault(name, queue.SimpleQueue())

    def post(self, to: int, name: str, message: Frozen, patience: Patience, outside: bool = False) -> None:
        """Send a message of the present job to a rank or service; `outside`: not from this rank, in no order with what
        it sends.
        """
        to = worker_of(to, self._size)
        line = to, outside
        data = json.dumps([self._job, name, message], separators=(",", ":")).encode() + b"\n"
        try:
            if line not in self._peers:
                peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                peer.connect(self._path(to))
                peer.setblocking(False)
                self._peers[line] = peer
            peer = self._peers[line]
            while data:
                try:
                    data = data[peer.send(data) :]
                except BlockingIOError:
                    patience.until(lambda: bool(select.select([], [peer], [], 0)[1]))
        except (ConnectionError, FileNotFoundError):
            pass
        except Unfinished:  # perhaps in the middle of a message
            self._peers.pop(line).close()
            raise

    def _path(self, worker: int) -> str:
        return f"{self._folder}/{worker}"

    def _read(self, listener: socket.socket) -> None:
        """The reader's thread."""
        with selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            beginnings: dict[Any, bytes] = {}
            while True:
                for key, _ in selector.select():
                    if key.fileobj is listener:
                        sender, _ = listener.accept()
                        selector.register(sender, selectors.EVENT_READ)
                        beginnings[sender] = b""
                        continue
                    sender = key.fileobj  # type: ignore[assignment]  # what was registered is a socket
                    data = receive(sender)
                    if not data:
                        selector.unregister(sender)
                        sender.close()
                        del beginnings[sender]
                        continue
                    *lines, beginnings[sender] = (beginnings[sender] + data).split(b"\n")
                    for line in lines:
                        self._deliver(*json.loads(line))

    def _deliver(self, job: int, name: str, message: Any) -> None:
        with self._lock:
            if job == self._job:
                self._boxes.setdefault(name, queue.SimpleQueue()).put(tuples(message))


def receive(sender: socket.socket) -> bytes:
    """What came; nothing if nothing more will come."""
    try:
        return sender.recv(CHUNK)
    except ConnectionError:
        return b""
