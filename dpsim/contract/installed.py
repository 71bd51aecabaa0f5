"""Entry points of installed packages. A process reads them once, since Python otherwise reads the metadata of each
package again.

    entry_points(group="dpsim.backends"), entry_points(group="dpsim.options", name="run")

Python finds packages in the folders of `sys.path`. If that list changes, the next call reads them again.
"""

from __future__ import annotations

import functools
import sys
from importlib import metadata
from typing import Any


def entry_points(group: str, name: str | None = None) -> metadata.EntryPoints:
    """Returns the entry points of a group, or those with a name in it."""
    found: metadata.EntryPoints = _every(tuple(sys.path)).select(group=group)
    return found if name is None else found.select(name=name)


@functools.lru_cache(1)
def _every(path: tuple[str, ...]) -> Any:  # the class differs between Python versions; all have `select`
    return metadata.entry_points()
