"""Entry points of installed packages: read once a process, for reading asks each package for its metadata again.

    entry_points(group="dpsim.backends"), entry_points(group="dpsim.options", name="run")

Python finds packages in the folders of `sys.path`. Once that differs, they are read anew.
"""

from __future__ import annotations

import functools
import sys
from importlib import metadata
from typing import Any


def entry_points(group: str, name: str | None = None) -> metadata.EntryPoints:
    """Those of a group, or of a name in it."""
    found: metadata.EntryPoints = _every(tuple(sys.path)).select(group=group)
    return found if name is None else found.select(name=name)


@functools.lru_cache(1)
def _every(path: tuple[str, ...]) -> Any:  # another class in each version of Python; all of them select
    return metadata.entry_points()
