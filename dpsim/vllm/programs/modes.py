"""Decisions of ranks that a campaign counts, such as graph modes, and what a proof assumes of CUDA graphs.

A campaign runs many scenarios, and counts in how many of them each decision of a rank occurred (`Program.modes`,
`Program.rows`). The tables map the
name in a report to the kind and value of a rank's decision.
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
"""Decisions of a data-parallel step: the mode of its CUDA graph, and whether the ranks split their batches."""

STAGE_MODES: Mapping[str, tuple[str, Any]] = {mode: ("mode", mode) for mode in RUNTIME_MODES}
"""Decisions of a pipeline stage: the mode of its CUDA graph."""

OVERLAP_ROWS: Mapping[str, tuple[str, Any]] = {
    f"overlap {action}": ("overlap", action) for action in ("plain", "graph", "eager", "threads", "capture", "replay")
}
"""Decisions of a wrapper of microbatches: the row of its table that runs a step (`dpsim.vllm.overlap.wrapper`)."""

CHOSEN = "ranks capture no graphs"
NEITHER = "ranks neither choose nor capture graphs"


def chosen_graphs(config: EngineConfig, graphs: Collection[object]) -> tuple[str, ...]:
    """Returns the assumption of a proof in which ranks agree on one of `graphs` and then run eagerly."""
    return (CHOSEN,) * (bool(graphs) and not config.capture_graphs)
