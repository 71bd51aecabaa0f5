"""The modes of a step and the rows of the table of overlaps, as ranks decide them.

Campaigns count in how many worlds each was reached (`Program.modes`, `Program.rows`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RUNTIME_MODES = ("NONE", "PIECEWISE", "FULL")

STEP_MODES: Mapping[str, tuple[str, Any]] = {
    f"{mode}, microbatched" if split else mode: ("mode", (mode, split))
    for mode in RUNTIME_MODES
    for split in (False, True)
}
"""Of a step of data-parallel ranks: the mode of its CUDA graph, and whether ranks split their batches."""

STAGE_MODES: Mapping[str, tuple[str, Any]] = {mode: ("mode", mode) for mode in RUNTIME_MODES}
"""Of a stage of a pipeline."""

OVERLAP_ROWS: Mapping[str, tuple[str, Any]] = {
    f"overlap {action}": ("overlap", action) for action in ("plain", "graph", "eager", "threads", "capture", "replay")
}
"""Of the table by which a wrapper runs a step (`dpsim.vllm.overlap.wrapper`)."""
