"""Mailboxes between processes: one UNIX stream socket a rank or service, in a folder of the parent's.

A sender connects at its first message to a rank and keeps the connection, so what one sender sent comes in order. A
thread of the receiver reads all connections and puts each message into its box as it arrives. One line a message, a
JSON array of the job's number, the box and the message; what belongs to an earlier job is dropped, so a message that
nobody took does not reach the next program. Socket and thread begin with the first job: a worker in reserve has the
number, and with it the path, of one that works.

Sending does not wait for the receiver's program, only (and interruptibly) for its reader when the socket is full. A
message to a process that has gone is lost, as anything sent to the dead.

Who *watches* a rank connects to it once more, and says so. That connection closes when the program there has ended, or
when the kernel takes the process down, whatever ended it. Then all that has arrived here is read first, so that a
notice comes after the messages of the one that is gone.

    mail = Mail(folder, worker=0)
    mail.begin(job=7, size=2)
    mail.post(1, "work", ("start", 3), Patience(...))
    message = mail.box("work").get()
"""

from __future__ import annotations

import contextlib
import json
import queue
import select
import selectors
import socket
import threading
from typing import Any, NamedTuple

from dpsim.interface import Frozen
from real.journal_reader import tuples
from real.messages import worker_of
from real.waiting import Patience, Unfinished

CHUNK = 1 << 16


class Notice(NamedTuple):
    """That an actor is gone, for a box of this process."""

    job: int
    name: str
    actor: int


class Mail:
    """All mailboxes of this process, and its way to those of the others. One for the life of a worker."""

    def __init__(self, folder: str, worker: int) -> None:
        self._folder = folder
        self._job = 0
        self._size = 0
        self._boxes: dict[str, queue.SimpleQueue[Frozen]] = {}
        self._lock = threading.Lock()
        self._peers: dict[int, socket.socket] = {}
        self._worker = worker
        self._listener: socket.socket | None = None
        self._ended = False
        self._watchers: set[socket.socket] = set()
        self._watched: queue.SimpleQueue[tuple[socket.socket, Notice]] = queue.SimpleQueue()
        self._wake, self._woken = socket.socketpair()

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
            self._tell_all()  # of the last job's, who ended in an idle get
            self._ended = False

    def end(self) -> None:
        """The program of this job has ended: those who watch it are told."""
        with self._lock:
            self._ended = True
            self._tell_all()

    def _tell_all(self) -> None:
        for watcher in self._watchers:
            with contextlib.suppress(OSError):
                watcher.shutdown(socket.SHUT_RDWR)
        self._watchers.clear()

    def watch(self, actor: int, name: str) -> None:
        """Have ("gone", actor) put into a box here when the program of a rank or service of this job has ended."""
        notice = Notice(self._job, name, actor)
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            peer.connect(self._path(worker_of(actor, self._size)))
            peer.sendall(json.dumps([self._job, None, None]).encode() + b"\n")
        except OSError:  # gone already; the reader finds it closed
            peer.close()
            peer, other = socket.socketpair()
            other.close()
        self._watched.put((peer, notice))
        self._wake.send(b"1")

    def box(self, name: str) -> queue.SimpleQueue[Frozen]:
        """The messages of a box, in the order in which they arrived."""
        with self._lock:
            return self._boxes.setdefault(name, queue.SimpleQueue())

    def post(self, to: int, name: str, message: Frozen, patience: Patience) -> None:
        """Send a message of the present job to a rank or service."""
        to = worker_of(to, self._size)
        data = json.dumps([self._job, name, message], separators=(",", ":")).encode() + b"\n"
        try:
            if to not in self._peers:
                peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                peer.connect(self._path(to))
                peer.setblocking(False)
                self._peers[to] = peer
            peer = self._peers[to]
            while data:
                try:
                    data = data[peer.send(data) :]
                except BlockingIOError:
                    patience.until(lambda: bool(select.select([], [peer], [], 0)[1]))
        except (ConnectionError, FileNotFoundError):
            pass
        except Unfinished:  # perhaps in the middle of a message
            self._peers.pop(to).close()
            raise

    def _path(self, worker: int) -> str:
        return f"{self._folder}/{worker}"

    def _read(self, listener: socket.socket) -> None:
        """The reader's thread."""
        with selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            beginnings: dict[Any, bytes] = {}
            gone: list[Notice] = []
            while True:
                ready = selector.select(0 if gone else None)
                if not ready:  # all that was there by then is read
                    for notice in gone:
                        self._deliver(notice.job, notice.name, ("gone", notice.actor))
                    gone.clear()
                for key, _ in ready:
                    if key.fileobj is self._woken:
                        self._woken.recv(1)
                        watched, notice = self._watched.get()
                        selector.register(watched, selectors.EVENT_READ, notice)
                        continue
                    if key.data is not None:  # nothing is ever said there
                        selector.unregister(key.fileobj)
                        key.fileobj.close()  # type: ignore[union-attr]
                        gone.append(key.data)
                        continue
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
                        job, name, message = json.loads(line)
                        if name is None:
                            self._begin_to_tell(sender, job)
                        else:
                            self._deliver(job, name, message)

    def _begin_to_tell(self, watcher: Any, job: int) -> None:
        """Somebody wants to know when the program of that job has ended."""
        with self._lock:
            if job == self._job and not self._ended:
                self._watchers.add(watcher)
            else:
                with contextlib.suppress(OSError):
                    watcher.shutdown(socket.SHUT_RDWR)

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
