"""The list of all kinds of questions that `dpsim check-engine` compares.

A new kind needs a module with a `Comparison`, and a line here.
"""

from __future__ import annotations

from typing import Any

from dpsim.vllm.answers.balance import BALANCE
from dpsim.vllm.answers.comparison import Comparison
from dpsim.vllm.answers.config import CONFIG, CONFIG_HASH
from dpsim.vllm.answers.decide import DECIDE
from dpsim.vllm.answers.dispatch import DISPATCH
from dpsim.vllm.answers.flow import FLOW
from dpsim.vllm.answers.ladder import LADDER
from dpsim.vllm.answers.manager import CAPTURES_004, CHOICES_004, SIZES_004
from dpsim.vllm.answers.need_mask import NEED_MASK
from dpsim.vllm.answers.slices import LAST_EMPTY, METADATA, SLICES, SLICES_V2
from dpsim.vllm.answers.v2 import V2_DISPATCH, V2_SYNC
from dpsim.vllm.answers.waves import COORDINATION, WAVES

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
