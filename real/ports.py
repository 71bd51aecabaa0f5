"""Ports of nodes on one machine. Every node has a separate address of the loopback interface, and so separate ports.

    node 0   127.0.0.1          node 1   127.0.0.2          ...

    listener = listen(node=1, port=29500)       # None if another process listens there already
    with listening(world.strangers): ...        # each is a socket that accepts connections and never replies

Linux has all of 127.0.0.0/8 on its loopback interface. So each simulated node gets one address. On a system with only
127.0.0.1, a second node raises OSError.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Generator, Iterable
from ipaddress import IPv4Address

from dpsim.contract.world import Lost, Stranger

BACKLOG = 1024
"""How many ranks may connect at the same time; for a stranger, how many may connect in all."""

REACH_SECONDS = 0.5
"""The deadline for one attempt, since a listener's queue may be full."""

FIRST = IPv4Address("127.0.0.1")

NODES = (1 << 24) - 1
"""The number of addresses from 127.0.0.1 to the end of 127.0.0.0/8."""


def address(node: int) -> str:
    """Returns the address of a node. Raises ValueError for more nodes than the loopback interface has addresses."""
    if node >= NODES:
        raise ValueError(f"node {node}: a machine has room for {NODES} nodes on its loopback interface")
    return str(FIRST + node)


def listen(node: int, port: int) -> socket.socket | None:
    """Returns a socket that listens on a port; for 0, on any free port. None if another process listens there
    (EADDRINUSE).
    """
    listener = socket.socket()
    try:
        # Closed connections do not occupy the port; another listener still does.
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
    """Returns a connection to the process that listens there; None if there is none."""
    connection = socket.socket()
    connection.settimeout(REACH_SECONDS)
    try:
        connection.connect((address(node), port))
        # The system may have assigned that port to this socket itself, which then connects to itself.
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
    """Listens as the other programs of a world (`World.strangers`), during a job. Raises Lost if another process has
    such a port.
    """
    with contextlib.ExitStack() as stack:
        for stranger in strangers:
            listener = listen(stranger.node, stranger.port)
            if listener is None:
                raise Lost(
                    f"port {stranger.port} of node {stranger.node}, which the scenario gives to another program, "
                    "is in use on this machine"
                )
            stack.enter_context(listener)
        yield
