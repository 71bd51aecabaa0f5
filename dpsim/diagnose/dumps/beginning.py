"""The beginning of a dump. A command that gets a dump by mistake can name the right command without a reader.

>>> is_dump(bytes([0x80, 2])), is_dump(b"name: my_scenario")
(True, False)
"""

from __future__ import annotations

HEAD = 4096
"""The number of bytes of a file that this check reads."""


def is_dump(head: bytes) -> bool:
    """Whether a file with these first bytes is a pickle, or JSON with entries of a flight recorder."""
    return head.startswith(b"\x80") or (head.lstrip().startswith(b"{") and b'"entries"' in head)
