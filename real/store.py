"""The store on which communicators meet: a TCPStore server of torch in the parent, on a port of the loopback interface.

    store = loopback_store()
    store.port                  # what a worker connects to

A TCPStore of torch has no authentication. A process that connects to it can read and set its keys, and a process that
opens many connections can keep workers from connecting. By default, torch's server listens on all interfaces, whatever
host name it gets. So the parent passes it a socket that is already bound to the loopback interface. Users of the same
machine can still reach it, as they can reach the sockets of gloo. If the set-up of the process groups fails, the pool
of workers creates a new store, because old keys would disturb the next set-up.

Rejected: a FileStore in the pool's folder, which other users cannot read. Its readers poll, so connecting 16 ranks took
more than twice as long, and it needs disk space.
"""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import Any

from dpsim.contract.world import Lost

BACKLOG = 1024
"""How many workers may connect at the same time."""

START = timedelta(seconds=60)
"""The deadline for the server's first reply, which fails if it lacks a descriptor."""


def loopback_store() -> Any:
    """Returns a new store, which lives as long as a reference to it. Raises Lost if this machine has no room for it."""
    from torch.distributed import TCPStore

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(BACKLOG)
        port = listener.getsockname()[1]
        given = listener.fileno()
        try:
            store = TCPStore("127.0.0.1", port, None, True, START, wait_for_workers=False, master_listen_fd=given)
        except RuntimeError as error:  # torch's DistStoreError, DistNetworkError
            raise Lost(f"the store could not be started: {error}") from error
        listener.detach()  # the store owns the socket now
    return store
