"""Two uses of one Python object by two host threads of a rank that no flag or join orders. The simulation finds them
(`dpsim.sim.hosts.shared`).
"""

from __future__ import annotations

from typing import NamedTuple


class SharedUse(NamedTuple):
    """A thread uses an object in a turn, one scheduler step. `site`: the site of the call before or after the use.
    `where`: file:line of the use.
    """

    thread: str
    step: int
    site: str
    where: str
    changes: bool


class Unordered(NamedTuple):
    """Two unordered uses. `name`: the expression for the object at one of them. At least one of them changes the
    object.
    """

    rank: int
    name: str
    first: SharedUse
    second: SharedUse
