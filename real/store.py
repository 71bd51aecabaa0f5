"""The store on which communicators meet: a server of torch in the parent, on a port of the loopback interface.

    store = loopback_store()
    store.port                  # what a worker connects to

Such a store has no authentication. A process that reaches it reads and sets its keys, and enough connections leave no
room for a worker's. By itself torch's server listens on all interfaces, whatever name it is given. So it gets a socket
that is bound already. Users of the same machine still reach it, as they reach the sockets of gloo. After a set-up that
failed the pool takes a new one.

Rejected: a FileStore in the pool's folder, which is closed to other users, too. Its readers poll, so that to connect 16
ranks took more than twice as long, and it needs room on a disk.
"""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import Any

from dpsim.contract.world import Lost

BACKLOG = 1024
"""Workers that may knock at the same time."""

START = timedelta(seconds=60)
"""For the server to answer its own maker. It does not where it lacks a descriptor."""


def loopback_store() -> Any:
    """A new one. It lives as long as it is referred to. Raises Lost where this machine has no room for it."""
    from torch.distributed import TCPStore

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(BACKLOG)
        port = listener.getsockname()[1]
        given = listener.fileno()
        try:
            store = TCPStore("127.0.0.1", port, None, True, START, wait_for_workers=False, master_listen_fd=given)
        except RuntimeError as error:  # of torch: DistStoreError, DistNetworkError
            raise Lost(f"the store could not be started: {error}") from error
        listener.detach()  # it is the store's now, and goes with it
    return store
