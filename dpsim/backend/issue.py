"""What goes out on a communicator: one rank's part in a collective, or one side of a transfer.

plan("all_reduce", 8, "int32")
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple


class Issue(NamedTuple):
    """A collective or transfer as it is really to be issued.

    `altered`: count or dtype are not those of the memory at hand. `group`: number of the coalesced group it belongs to.
    """

    op: str
    count: int  # type: ignore[assignment]  # the field's name; tuple.count is not wanted
    dtype: str
    root: int | None = None
    reduce: str | None = None
    sizes: tuple[int, ...] = ()
    peer: int | None = None
    group: int | None = None
    delay_ns: int = 0
    altered: bool = False


plan = lru_cache(4096)(Issue)
"""An issue, made once: most are the same in every step, and for all members of a group."""
