"""Mailboxes between processes: one UNIX stream socket per rank or service, in the parent's folder.

A sender connects at its first message to a rank and keeps the connection, so its messages arrive in order. A thread of
the receiver reads all connections and puts each message into its box as it arrives. A message is one line: a JSON array
of the job's number, the box and the message. The receiver drops messages of an earlier job, so the next program never
gets them. If a world has gates, a line also contains the address of the send, so that a get can take one particular
message. A worker opens its socket and starts the thread at its first job, and not earlier. A worker in reserve has the
same number, and so the same path, as a working one.

A send does not wait for the receiver's program. It waits only if the socket is full, until the receiver's thread reads.
A message to a process that has ended is lost.

A process that *watches* a rank opens one more connection to it and announces this. That connection closes when the
program there has ended, or when the kernel ends the process. The watcher first reads all messages that have arrived
here by then, so the notice comes after the messages of the ended rank. A process that a program forks closes its copies
of all connections from peers. Otherwise it could outlive the program and keep the connections open.

    mail = Mail(folder, worker=0)
    mail.begin(job=7, size=2)
    mail.post(1, "work", ("start", 3), Patience(...))
    message = mail.box("work").get()
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import selectors
import socket
import threading
from typing import Any, NamedTuple

from dpsim.contract.gates import Address
from dpsim.contract.interface import Frozen
from real.journal_reader import tuples
from real.messages import worker_of
from real.waiting import Patience, Unfinished

CHUNK = 1 << 16


class DeathNotice(NamedTuple):
    """A notice that an actor is gone, for a box of this process."""

    job: int
    name: str
    actor: int
    source: Address


class Mail:
    """All mailboxes of this process, and its connections to those of others. One per worker, for its lifetime."""

    def __init__(self, folder: str, worker: int) -> None:
        self._folder = folder
        self._job = 0
        self._size = 0
        self._gated = False
        self._secret = ""
        self._boxes: dict[str, queue.SimpleQueue[Frozen] | Gated] = {}
        self._lock = threading.Lock()
        self._peers: dict[tuple[int, bool], socket.socket] = {}
        self._worker = worker
        self._listener: socket.socket | None = None
        self._ended = False
        self._accepted: dict[Any, bytes] = {}
        """Each connection from a sender, with the incomplete line received so far."""
        self._watchers: set[socket.socket] = set()
        self._watched: queue.SimpleQueue[tuple[socket.socket, DeathNotice]] = queue.SimpleQueue()
        self._wake, self._woken = socket.socketpair()
        # Under the lock, so that every accepted connection is already noted.
        os.register_at_fork(before=self._lock.acquire, after_in_parent=self._lock.release, after_in_child=self._forked)

    def _forked(self) -> None:
        """In a process that was forked from this one: closes only its copies, so that no peer gets a notice."""
        for accepted in self._accepted:
            accepted.close()
        if self._listener is not None:
            self._listener.close()
        self._lock.release()

    def begin(self, job: int, size: int, gated: bool = False, secret: str = "") -> None:
        """Accepts only messages of this job from now on, a world of `size` ranks. Called before any rank may have begun
        the job. `gated`: the world has gates. `secret`: from the parent (`messages.Job`).
        """
        if self._listener is None:
            self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._listener.bind(self._path(self._worker))
            self._listener.listen(256)
            threading.Thread(target=self._read, args=(self._listener,), name="mail", daemon=True).start()
        with self._lock:
            self._job, self._size, self._gated = job, size, gated
            self._secret = secret
            self._boxes = {}
            self._tell_all()  # of watchers in the last job, whose rank ended in an idle get
            self._ended = False

    def end(self) -> None:
        """The program of this job has ended: its watchers get a notice."""
        with self._lock:
            self._ended = True
            self._tell_all()

    def _tell_all(self) -> None:
        for watcher in self._watchers:
            with contextlib.suppress(OSError):
                watcher.shutdown(socket.SHUT_RDWR)
        self._watchers.clear()

    def watch(self, actor: int, name: str, source: Address) -> None:
        """Lets ("gone", actor) arrive in a box here when the program of a rank or service of this job has ended.
        `source`: the address of the call.
        """
        notice = DeathNotice(self._job, name, actor, source)
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            peer.connect(self._path(worker_of(actor, self._size)))
            peer.sendall(json.dumps([self._job, None, None]).encode() + b"\n")
        except OSError:  # gone already; the reader finds the connection closed
            peer.close()
            peer, other = socket.socketpair()
            other.close()
        self._watched.put((peer, notice))
        self._wake.send(b"1")

    @property
    def job(self) -> str:
        """Returns the word that a rank of this job sends to a store, which no other process of this machine knows."""
        return f"{self._secret} {self._job}"

    def box(self, name: str) -> queue.SimpleQueue[Frozen] | Gated:
        """Returns the messages of a box, in the order of arrival."""
        with self._lock:
            return self._own(name)

    def gated(self, name: str) -> Gated:
        """As `box`, in a world with gates."""
        box = self.box(name)
        assert isinstance(box, Gated)
        return box

    def post(self, to: int, name: str, message: Frozen, patience: Patience, source: Address) -> None:
        """Sends a message of the present job to a rank or service. `source`: the address of the send. A message from
        outside is not ordered with those that this rank sends.
        """
        to = worker_of(to, self._size)
        line = to, source[0] < 0
        envelope = [self._job, name, message, *[source] * self._gated]
        data = json.dumps(envelope, separators=(",", ":")).encode() + b"\n"
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
        except Unfinished:  # perhaps within a message
            self._peers.pop(line).close()
            raise

    def _path(self, worker: int) -> str:
        return f"{self._folder}/{worker}"

    def _read(self, listener: socket.socket) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            beginnings = self._accepted
            gone: list[DeathNotice] = []
            while True:
                ready = selector.select(0 if gone else None)
                if not ready:  # the thread has read all that had arrived by then
                    for notice in gone:
                        self._deliver(notice.job, notice.name, ("gone", notice.actor), notice.source)
                    gone.clear()
                for key, _ in ready:
                    if key.fileobj is self._woken:
                        self._woken.recv(1)
                        watched, notice = self._watched.get()
                        selector.register(watched, selectors.EVENT_READ, notice)
                        continue
                    if key.data is not None:  # no peer sends anything there
                        selector.unregister(key.fileobj)
                        key.fileobj.close()  # type: ignore[union-attr]
                        gone.append(key.data)
                        continue
                    if key.fileobj is listener:
                        with self._lock:
                            sender, _ = listener.accept()
                            beginnings[sender] = b""
                        selector.register(sender, selectors.EVENT_READ)
                        continue
                    sender = key.fileobj  # type: ignore[assignment]  # it is always a socket
                    data = receive(sender)
                    if not data:
                        selector.unregister(sender)
                        sender.close()
                        del beginnings[sender]
                        continue
                    *lines, beginnings[sender] = (beginnings[sender] + data).split(b"\n")
                    for line in lines:
                        job, name, message, *source = json.loads(line)
                        if name is None:
                            self._begin_to_tell(sender, job)
                        else:
                            self._deliver(job, name, message, *source)

    def _begin_to_tell(self, watcher: Any, job: int) -> None:
        with self._lock:
            if job == self._job and not self._ended:
                self._watchers.add(watcher)
            else:
                with contextlib.suppress(OSError):
                    watcher.shutdown(socket.SHUT_RDWR)

    def _deliver(self, job: int, name: str, message: Any, *source: Any) -> None:
        with self._lock:
            if job == self._job:
                box = self._own(name)
                if isinstance(box, Gated):
                    box.put(tuples(message), tuple(*source))
                else:
                    box.put(tuples(message))

    def _own(self, name: str) -> queue.SimpleQueue[Frozen] | Gated:
        box = self._boxes.get(name)
        if box is None:
            box = self._boxes[name] = Gated() if self._gated else queue.SimpleQueue()
        return box


class Gated:
    """A mailbox from which a get can take one particular message, by the address of its send."""

    def __init__(self) -> None:
        self._messages: list[tuple[Address, Frozen]] = []
        self._arrivals = threading.Condition()

    def put(self, message: Frozen, source: Address) -> None:
        with self._arrivals:
            self._messages.append((source, message))
            self._arrivals.notify_all()

    def get(self, *, timeout: float, source: Address | None = None) -> Frozen:
        """Returns the next message, or that one; waits at most `timeout` seconds. Raises queue.Empty, as other
        mailboxes do.
        """

        def place() -> int | None:
            return next((at for at, (of, _) in enumerate(self._messages) if source in (None, of)), None)

        with self._arrivals:
            if not self._arrivals.wait_for(lambda: place() is not None, timeout):
                raise queue.Empty
            at = place()
            assert at is not None
            return self._messages.pop(at)[1]

    def get_nowait(self) -> Frozen:
        return self.get(timeout=0)

    def only(self, source: Address) -> OneMessage:
        """Returns a box that contains only that message."""
        return OneMessage(self, source)


class OneMessage:
    """A mailbox that contains one message, or nothing yet."""

    def __init__(self, box: Gated, source: Address) -> None:
        self._box = box
        self._source = source

    def get(self, *, timeout: float) -> Frozen:
        return self._box.get(timeout=timeout, source=self._source)


def receive(sender: socket.socket) -> bytes:
    """Returns the received bytes; empty if the peer has closed."""
    try:
        return sender.recv(CHUNK)
    except ConnectionError:
        return b""
