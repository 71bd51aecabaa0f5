"""Collectives without a defined result, as a backend reports them in `Run.undefined`."""

from __future__ import annotations

from typing import NamedTuple


class Undefined(NamedTuple):
    """A member contributed a NaN to a reduction by max or min, in its call at this site."""

    rank: int
    communicator: str
    site: str
    ordinal: int
