"""Beginning: recognizes a dump by its first bytes. A command that receives one by mistake can name the right command.

>>> is_dump(bytes([0x80, 2])), is_dump(b"name: my_scenario")
(True, False)
"""

from __future__ import annotations

HEAD = 4096
"""The number of bytes of a file that a caller reads for this."""


def is_dump(head: bytes) -> bool:
    """Returns whether a file with these first bytes is a pickle, or JSON with the entries of a flight recorder."""
    return head.startswith(b"\x80") or (head.lstrip().startswith(b"{") and b'"entries"' in head)
