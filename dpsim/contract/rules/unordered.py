"""Two uses of one thing by two host threads of a rank, which nothing orders. The simulation sees them."""

from __future__ import annotations

from typing import NamedTuple


class SharedUse(NamedTuple):
    """A thread uses an object in a turn. `site`: the site of the call before or after it. `where`: file:line of the
    use.
    """

    thread: str
    step: int
    site: str
    where: str
    changes: bool


class Unordered(NamedTuple):
    """`name`: the name of the object at one of the two uses. At least one of them changes the object."""

    rank: int
    name: str
    first: SharedUse
    second: SharedUse
