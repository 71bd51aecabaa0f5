"""The kinds of questions that are compared.

A new kind is a module with a `Comparison` and a line here.
"""

from __future__ import annotations

from typing import Any

from dpsim.testing.engine.comparison import Comparison
from dpsim.testing.engine.config import CONFIG, CONFIG_HASH
from dpsim.testing.engine.decide import DECIDE
from dpsim.testing.engine.dispatch import DISPATCH
from dpsim.testing.engine.flow import FLOW
from dpsim.testing.engine.ladder import LADDER
from dpsim.testing.engine.manager import CAPTURES_004, CHOICES_004, SIZES_004
from dpsim.testing.engine.need_mask import NEED_MASK
from dpsim.testing.engine.slices import LAST_EMPTY, METADATA, SLICES, SLICES_V2
from dpsim.testing.engine.v2 import V2_DISPATCH, V2_SYNC
from dpsim.testing.engine.waves import COORDINATION, WAVES

KINDS: tuple[Comparison[Any], ...] = (
    DECIDE,
    DISPATCH,
    FLOW,
    LADDER,
    SIZES_004,
    CHOICES_004,
    CAPTURES_004,
    NEED_MASK,
    SLICES,
    SLICES_V2,
    LAST_EMPTY,
    METADATA,
    V2_DISPATCH,
    V2_SYNC,
    CONFIG,
    CONFIG_HASH,
    WAVES,
    COORDINATION,
)

__all__ = ["KINDS"]
