"""Ranks that have no free slot for device work (`World.residency`), as a run notes them (`Run.occupied`)."""

from __future__ import annotations

from typing import NamedTuple


class Occupied(NamedTuple):
    """A rank without a free slot (`World.residency`): which records of its journal hold the slots, and which wait."""

    rank: int
    held: tuple[int, ...]
    waiting: tuple[int, ...]
