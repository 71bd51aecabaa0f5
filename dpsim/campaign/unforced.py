"""Unforced: lists which races of a simulated run no gate can decide on real processes, with the reason.

    unforced(scenario, run, "gloo")      # NotForced, or None

Gates make a run on real processes follow the order of a simulated one (`dpsim.campaign.gates`). If they cannot, a
replay on a real backend refuses, because it would make another run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpsim.checks.finding import Finding, can_match
from dpsim.contract.events import failing_rank
from dpsim.contract.ops import KIND, STREAM
from dpsim.contract.words import BadInput
from dpsim.contract.world import Run
from dpsim.scenario import Scenario

_RACES = ("RACE:BUFFER", "RACE:REUSED_IN_FLIGHT")


class NotForced(BadInput):
    """A real backend cannot repeat the order of this run."""


def unforced(
    scenario: Scenario, run: Run, findings: Sequence[Finding], words: Sequence[str], backend: str
) -> NotForced | None:
    """Returns why a backend cannot repeat a run; None if it can. `words`: its schedule."""
    for what, why in _unforced(scenario, run, findings, words):
        message = f"{scenario.name}: the {backend} backend cannot force {what}: {why}"
        return NotForced(f"{message}; replay it on the simulation (--backend sim)")
    return None


def _unforced(
    scenario: Scenario, run: Run, findings: Sequence[Finding], words: Sequence[str]
) -> Iterator[tuple[str, str]]:
    raising = next((rank for rank in map(failing_rank, words) if rank is not None), None)
    if raising is not None:
        yield f"what the device of rank {raising} does before its kernel raises", "gates hold a stream at events alone"
    if any(one.klass == "RACE:REUSED_IN_FLIGHT" for one in findings):
        yield "which memory an allocator gives out again", "torch's own allocator decides"
    off = scenario.checks.switched_off
    if any(can_match(race, one) for race in _RACES for one in off) and _streams(run) > 1:
        yield "the order in which two streams use memory", "gates hold a host, and a stream at an event alone"


def _streams(run: Run) -> int:
    used = [{raw[STREAM] for raw in journal if raw[KIND] == "launch"} for journal in run.journals]
    return max(map(len, used), default=0)
