"""The modes of a step and the rows of the table of overlaps, as ranks decide them, and what a proof assumes of graphs.

Campaigns count in how many worlds each was reached (`Program.modes`, `Program.rows`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from dpsim.vllm.config import EngineConfig

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

CHOSEN = "graphs are chosen, not captured"
NEITHER = "graphs are neither chosen nor captured"


def chosen_graphs(config: EngineConfig, graphs: Collection[object]) -> tuple[str, ...]:
    """What a proof assumes if ranks agree on one of these graphs and then run the same calls eagerly."""
    return (CHOSEN,) * (bool(graphs) and not config.capture_graphs)
