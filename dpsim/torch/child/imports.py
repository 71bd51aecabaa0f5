"""Finds the modules that a rank has imported, so that the warm parent imports them too and later children start faster.

new()               # ["numpy.random"]; then [] until the rank imports another module
"""

from __future__ import annotations

import sys
from itertools import islice

_had = [0]
"""The number of modules in `sys.modules` at the last call of `known`."""


def known() -> None:
    """Marks all modules as known that the process has imported so far."""
    _had[0] = len(sys.modules)


def new() -> list[str]:
    """Returns the modules of installed packages since the last call, without those of the user, which have state. It
    reads only the end of `sys.modules`, because a look changes a reference count, which copies a memory page.
    """
    found = []
    for name in sorted(islice(reversed(sys.modules), max(len(sys.modules) - _had[0], 0))):
        file = getattr(sys.modules[name], "__file__", None) or ""
        if "site-packages" in file or "dist-packages" in file:
            found.append(name)
    known()
    return found
