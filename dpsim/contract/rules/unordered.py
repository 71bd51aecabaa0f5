"""Two uses of one thing by two host threads of a rank, which nothing orders. The simulation sees them."""

from __future__ import annotations

from typing import NamedTuple


class SharedUse(NamedTuple):
    """A thread uses something in a turn; `site`: of the call before or after it. `where`: file:line of the use."""

    thread: str
    step: int
    site: str
    where: str
    changes: bool


class Unordered(NamedTuple):
    """`name`: of the thing, as the program has it at one of the two. One of them changes it, perhaps both."""

    rank: int
    name: str
    first: SharedUse
    second: SharedUse
