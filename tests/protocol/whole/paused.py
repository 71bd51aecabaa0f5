"""Variants of what the first front end does: it pauses all engines, changes their weights, and lets them resume."""

from __future__ import annotations

from dpsim.protocol.engine.frontend import Plan
from dpsim.registry import register_variant

MS = 1_000_000
HEALTHY = "healthy: a front end that pauses and resumes"


class PausesOnce(Plan):
    """Requests that run are kept, and the others come afterwards."""

    control = ((4 * MS, ("PAUSE", "keep")), (4 * MS, ("UPDATE_WEIGHTS", 1)), (4 * MS, ("RESUME",)))


@register_variant("whole-paused", protocol="whole_engine", expected=None, reason=HEALTHY)
class Paused(PausesOnce):
    """With pipelines."""


@register_variant("whole-dp-paused", protocol="whole_engine_dp", expected=None, reason=HEALTHY)
class PausedDp(PausesOnce):
    """Without."""
