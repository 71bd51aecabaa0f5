"""Finds the sockets on which processes listen, in the kernel's tables of sockets."""

from __future__ import annotations

import os
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

LISTENS = "0A"


def listeners(processes: Iterable[int]) -> list[tuple[IPv4Address | IPv6Address, int]]:
    """Returns (address, port) of each TCP socket on which one of these processes listens."""
    known = _listening()
    return [known[inode] for process in processes for inode in _sockets(process) if inode in known]


def outside(processes: Iterable[int]) -> list[str]:
    """Returns the sockets that other machines can reach."""
    return [f"{address}:{port}" for address, port in listeners(processes) if not address.is_loopback]


def _sockets(process: int) -> set[str]:
    """Returns the numbers of the sockets that a process has open."""
    found = set()
    for entry in os.scandir(f"/proc/{process}/fd"):
        try:
            target = os.readlink(entry.path)
        except FileNotFoundError:  # closed in the meantime
            continue
        if target.startswith("socket:["):
            found.add(target[len("socket:[") : -1])
    return found


def _listening() -> dict[str, tuple[IPv4Address | IPv6Address, int]]:
    """Returns the address and port of each listening socket of this network namespace, by the socket's number."""
    found = {}
    for table in ("tcp", "tcp6"):
        path = Path(f"/proc/self/net/{table}")
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            fields = line.split()
            address, _, port = fields[1].partition(":")
            if fields[3] == LISTENS:
                found[fields[9]] = _address(address), int(port, 16)
    return found


def _address(text: str) -> IPv4Address | IPv6Address:
    """Parses an address of the kernel's tables. It consists of 32-bit words in the byte order of x86 and ARM, least
    first.
    """
    words = [bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8)]
    return ip_address(b"".join(words))
