"""The list of all kinds of questions that `dpsim check-engine` compares.

A new kind needs a module with a `Comparison`, and a line here.
"""

from __future__ import annotations

from typing import Any

from dpsim_engine.balance import BALANCE
from dpsim_engine.comparison import Comparison
from dpsim_engine.config import CONFIG, CONFIG_HASH
from dpsim_engine.decide import DECIDE
from dpsim_engine.dispatch import DISPATCH
from dpsim_engine.flow import FLOW
from dpsim_engine.ladder import LADDER
from dpsim_engine.manager import CAPTURES_004, CHOICES_004, SIZES_004
from dpsim_engine.need_mask import NEED_MASK
from dpsim_engine.slices import LAST_EMPTY, METADATA, SLICES, SLICES_V2
from dpsim_engine.v2 import V2_DISPATCH, V2_SYNC
from dpsim_engine.waves import COORDINATION, WAVES

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
    BALANCE,
)
