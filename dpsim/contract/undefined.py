"""Collectives without a defined result, as a backend reports them in `Run.undefined`."""

from __future__ import annotations

from typing import NamedTuple


class Undefined(NamedTuple):
    """A member contributed a value to a reduction by max or min, in its call at this site, that makes the result
    undefined. `zero`: it is -0.0, another member contributed 0.0, and the result is a zero. Else it is a NaN.
    """

    rank: int
    communicator: str
    site: str
    ordinal: int
    zero: bool = False
