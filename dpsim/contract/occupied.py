"""Ranks that have no free slot for device work (`World.residency`), as a backend reports them in `Run.occupied`."""

from __future__ import annotations

from typing import NamedTuple


class Occupied(NamedTuple):
    """A rank without a free slot (`World.residency`): the records of its journal whose calls occupy the slots, and
    those whose calls wait.
    """

    rank: int
    held: tuple[int, ...]
    waiting: tuple[int, ...]
