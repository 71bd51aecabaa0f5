"""Ops without a defined result, as a run notes them (`Run.undefined`)."""

from __future__ import annotations

from typing import NamedTuple


class Undefined(NamedTuple):
    """A member of a collective brought a NaN to a reduction that compares, by the call at this site."""

    rank: int
    communicator: str
    site: str
    ordinal: int
