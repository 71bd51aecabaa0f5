"""A worker process as its parent sees it: the process, a socket to it, and a pipe (the lifeline) that ends it.

If the pool has a `ForkServer`, that server forks the worker; otherwise `subprocess.Popen` starts it. `multiprocessing`
is unsuitable: its `spawn` imports the user's main module in each worker. Workers inherit the whole environment.
Messages are pickled.

Only the parent has the write end of the lifeline, and the kernel closes it when the parent ends, however it ends. Then
the worker ends, too (`worker.die_with_parent`).

Each request to a worker has a deadline, since a worker may be stopped, even within a message.

    child = Child(0, {"device": "cpu", "recovery": "kill", "port": store.port, "folder": folder}, os.environ, server)
    child.receive()                     # Ready
    child.end()
    child.wait()
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from dpsim.backend.journal.trouble import FAULTS, is_ending, is_stopped, limit
from real.fork_server import Forked, ForkServer, command
from real.quiet import busy_ns

REST_SECONDS = 60.0
"""The deadline for the rest of a message that has begun."""

END_SECONDS = 60.0
"""The deadline for the end of a process that was killed."""


class Child:
    """A worker process and its socket."""

    def __init__(
        self, rank: int, settings: dict[str, Any], environment: Mapping[str, str], server: ForkServer | None
    ) -> None:
        settings = {"rank": rank, **settings}
        self.rank = rank
        """The rank, or -1, -2, ... for services (`messages.worker_of`)."""
        self.versions: dict[str, str] = {}
        self.process: subprocess.Popen[bytes] | Forked
        self._server = server
        with contextlib.ExitStack() as undo, contextlib.ExitStack() as done:
            ours, theirs = map(undo.enter_context, socket.socketpair())
            lifeline, self._lifeline = os.pipe()
            done.callback(theirs.close)
            done.callback(os.close, lifeline)
            undo.callback(os.close, self._lifeline)
            limit(ours.fileno(), REST_SECONDS)
            if server is not None:
                self.process = server.start(settings, environment, [theirs.fileno(), lifeline])
            else:
                settings |= {"socket": theirs.fileno(), "lifeline": lifeline}
                self.process = subprocess.Popen(
                    command(settings),
                    pass_fds=(theirs.fileno(), lifeline),
                    stdin=subprocess.DEVNULL,
                    env=environment,
                )
            undo.pop_all()
            self.link = Connection(ours.detach())

    @property
    def name(self) -> str:
        """Its name in messages, when no world defines names of services."""
        return f"rank {self.rank}" if self.rank >= 0 else f"service {~self.rank}"

    def send(self, message: Any) -> None:
        """Sends a message. If the worker has ended or does not read, other methods detect that."""
        with contextlib.suppress(OSError):
            self.link.send(message)

    def receive(self) -> Any:
        """Returns the next message, or None if the process has ended."""
        try:
            return self.link.recv()
        except (EOFError, OSError):
            return None

    def has_ended(self) -> bool:
        """Whether the process has ended or has begun to end. A killed one may need a while, and its socket is open."""
        return self.is_ending() or self.process.poll() is not None

    def is_ending(self) -> bool:
        """Whether the process has begun to end."""
        return is_ending(self.process.pid)

    def busy_ns(self) -> int | None:
        """Returns the ns in which its threads ran or waited for a core; None if the system does not report that."""
        return busy_ns(self.process.pid)

    def how_it_ended(self) -> str:
        """Returns "SIGABRT" or the like, or an exit status."""
        try:
            code = self.process.wait(20)
        except subprocess.TimeoutExpired:
            return "its socket closed, but not the process"
        return f"exit status {code}" if code >= 0 else _signal_name(-code)

    def taken_away(self) -> str:
        """Returns how the machine ended the process, as text; empty if it lives, or ended by itself."""
        if is_stopped(self.process.pid):
            return "was stopped and did not go on"
        if not self.has_ended():
            return ""
        if self._server is not None and self._server.has_ended():
            return "ended with what forks the workers"
        how = self.how_it_ended()
        return f"was ended by {how}" if how.startswith("SIG") and how not in FAULTS else ""

    def end(self) -> None:
        """Kills the process. The parent sends it no more messages, and reads none."""
        self.process.kill()
        self.link.close()
        os.close(self._lifeline)

    def wait(self) -> None:
        """Waits until the process has ended. It may be unable to end for a while, for example in a call of a driver."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_SECONDS)


def _signal_name(number: int) -> str:
    """Returns the name of a signal. Python has no names for most real-time signals.

    >>> _signal_name(9), _signal_name(36)
    ('SIGKILL', 'SIG36')
    """
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def speaking(children: Sequence[Child], seconds: float) -> list[Child]:
    """Returns the workers that have sent something or have ended; waits up to `seconds` for the first of them."""
    ready = wait([child.link for child in children], seconds)
    return [child for child in children if child.link in ready]
