"""Ports of nodes on one machine: every node has an address of the loopback interface, and with it its own ports.

    node 0   127.0.0.1          node 1   127.0.0.2          ...

    listener = listen(node=1, port=29500)       # None if another process listens there already
    with listening(world.strangers): ...        # each is a socket that takes connections and never answers

Linux has all of 127.0.0.0/8 on its loopback interface. Where a system has 127.0.0.1 alone, other nodes are an OSError.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Generator, Iterable
from ipaddress import IPv4Address

from dpsim.contract.world import Lost, Stranger

BACKLOG = 1024
"""Ranks that may knock at the same time; of a stranger, all that ever do."""

REACH_SECONDS = 0.5
"""For one attempt: a listener may have no room for more callers."""

FIRST = IPv4Address("127.0.0.1")

NODES = (1 << 24) - 1
"""Addresses from there to the end of 127.0.0.0/8."""


def address(node: int) -> str:
    """That of a node. Raises ValueError for more nodes than the loopback interface has."""
    if node >= NODES:
        raise ValueError(f"node {node}: a machine has room for {NODES} nodes on its loopback interface")
    return str(FIRST + node)


def listen(node: int, port: int) -> socket.socket | None:
    """A socket that listens there; 0: on any port that is free. None if another process does already (EADDRINUSE)."""
    listener = socket.socket()
    try:
        # What is left of closed connections holds no port; a listener still does.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address(node), port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise
    except BaseException:
        listener.close()
        raise
    return listener


def reach(node: int, port: int) -> socket.socket | None:
    """A connection to the process that listens there; None if there is none."""
    connection = socket.socket()
    connection.settimeout(REACH_SECONDS)
    try:
        connection.connect((address(node), port))
        # The system may have given this socket that very port to call from: then it has reached itself.
        if connection.getsockname() != connection.getpeername():
            connection.settimeout(None)
            return connection
    except (ConnectionError, TimeoutError):
        pass
    except BaseException:
        connection.close()
        raise
    connection.close()
    return None


@contextlib.contextmanager
def listening(strangers: Iterable[Stranger]) -> Generator[None, None, None]:
    """The other programs of a world, while a job runs. Raises Lost where another process has such a port."""
    with contextlib.ExitStack() as stack:
        for stranger in strangers:
            listener = listen(stranger.node, stranger.port)
            if listener is None:
                raise Lost(f"port {stranger.port} of node {stranger.node}, a stranger's in this world, is in use")
            stack.enter_context(listener)
        yield
