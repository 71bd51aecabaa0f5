"""A worker, as its parent sees it: a process, a socket to it, and the pipe that ends it.

A worker is forked by the pool's `ForkServer`, where there is one, or started with a plain `subprocess.Popen`; not with
`multiprocessing`, whose `spawn` would import the user's main module in each of them. They inherit the whole
environment. Messages are pickled.

The write end of the lifeline is held by the parent alone, and the kernel closes it when the parent ends, however it
does. `worker.die_with_parent` is the other side.

    child = Child(0, {"device": "cpu", "recovery": "kill", "port": store.port, "folder": folder}, os.environ, server)
    child.receive()                     # Ready
    child.kill()
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from real.fork_server import Forked, ForkServer


class Child:
    """A worker process and its socket."""

    def __init__(
        self, rank: int, settings: dict[str, Any], environment: Mapping[str, str], server: ForkServer | None
    ) -> None:
        ours, theirs = socket.socketpair()
        lifeline, self._lifeline = os.pipe()
        settings = {"rank": rank, **settings}
        self.rank = rank
        self.versions: dict[str, str] = {}
        self.process: subprocess.Popen[bytes] | Forked
        if server is not None:
            self.process = server.start(settings, environment, [theirs.fileno(), lifeline])
        else:
            settings |= {"socket": theirs.fileno(), "lifeline": lifeline}
            # -P: the folder that happens to be the current one is not where modules are looked for.
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "real.worker", json.dumps(settings)],
                pass_fds=(theirs.fileno(), lifeline),
                stdin=subprocess.DEVNULL,
                env=environment,
            )
        theirs.close()
        os.close(lifeline)
        self.link = Connection(ours.detach())

    def receive(self) -> Any:
        """The next message, or None if the process has ended."""
        try:
            return self.link.recv()
        except (EOFError, OSError):
            return None

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def how_it_ended(self) -> str:
        """ "SIGABRT", or an exit status."""
        try:
            code = self.process.wait(20)
        except subprocess.TimeoutExpired:
            return "its socket closed, but not the process"
        return signal.Signals(-code).name if code < 0 else f"exit status {code}"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.link.close()
        os.close(self._lifeline)


def speaking(children: Sequence[Child], seconds: float) -> list[Child]:
    """Those that have said something, or have ended; waits so long for the first of them."""
    ready = wait([child.link for child in children], seconds)
    return [child for child in children if child.link in ready]
