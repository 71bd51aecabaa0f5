"""Modules that a rank imported, which the warm parent then imports too: the children after that start with them.

new()               # ["numpy.random"], and [] until the next one is imported
"""

from __future__ import annotations

import sys
from itertools import islice

_had = [0]
"""How many modules are known to the parent."""


def known() -> None:
    """All that are imported now need no word."""
    _had[0] = len(sys.modules)


def new() -> list[str]:
    """Those of packages since then. The user's own stay out: their state is the rank's.

    The last entries of `sys.modules`, so that no count of references is written to the pages of the others.
    """
    found = []
    for name in sorted(islice(reversed(sys.modules), max(len(sys.modules) - _had[0], 0))):
        file = getattr(sys.modules[name], "__file__", None) or ""
        if "site-packages" in file or "dist-packages" in file:
            found.append(name)
    known()
    return found
