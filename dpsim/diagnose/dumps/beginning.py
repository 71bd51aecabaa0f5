"""How a dump begins: a command that gets one by mistake says where it goes, and needs no reader for that.

>>> is_dump(bytes([0x80, 2])), is_dump(b"name: my_scenario")
(True, False)
"""

from __future__ import annotations

HEAD = 4096
"""Bytes of a file that are looked at."""


def is_dump(head: bytes) -> bool:
    """Whether a file with these first bytes is a pickle, or JSON with entries of a flight recorder."""
    return head.startswith(b"\x80") or (head.lstrip().startswith(b"{") and b'"entries"' in head)
