"""Tests a pause with mode `wait` (spec chapter 2.6): running requests continue, and new ones start after the resume."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpsim.contract.ops import KIND, SITE
from dpsim.contract.world import At, Delay
from dpsim.vllm.engine.forward import REAL
from dpsim.vllm.engine.pause import PAUSED
from dpsim.vllm.engine.waves import PauseState
from dpsim.vllm.whole.rank_engine import LiveRankScheduler
from tests.vllm.whole import whole_worlds
from tests.vllm.whole.whole_worlds import EAGER, Control, request, run, whole

STEPS = 8
SECOND = 2
"""The number of the second front end, in a world with one engine."""


def forwards(pieces: dict[type[Any], type[Any]]) -> tuple[int, int]:
    """Runs an engine with a request of eight steps, and a second request that arrives during the pause.

    Returns the number of forwards with tokens before the pause is complete, and of all such forwards.
    """
    control: Control = [(1, ("PAUSE", "wait")), (2, ("RESUME",))]
    asked = [request(1, STEPS), request(1, 2)]
    of = whole(asked, control, pieces, dp=1, frontends=2, interval=1, max_num_seqs=2, **EAGER)
    late = Delay(SECOND, At("frontend.add", 0), 500_000)
    seen: whole_worlds.Seen = run(replace(of, world=replace(of.world, delays=(late,))))
    assert (seen.classes, seen.run.finished) == ([], True)
    probes = [raw[SITE] for raw in seen.run.journals[0] if raw[KIND] == "probe"]
    return probes[: probes.index(PAUSED)].count(REAL), probes.count(REAL)


class AdmitsAlways(LiveRankScheduler):
    """Faulty: the scheduler also admits new requests during a pause."""

    def next_batch(self, pause: PauseState) -> Any:
        return super().next_batch(PauseState.UNPAUSED)


def test_a_request_during_a_pause_is_admitted_after_it() -> None:
    assert forwards({}) == (STEPS, STEPS + 2)


def test_twin_a_request_admitted_during_a_pause_adds_no_forwards() -> None:
    """In the faulty twin, the second request runs in steps of the first one, so it adds no forwards."""
    assert forwards({LiveRankScheduler: AdmitsAlways}) == (STEPS, STEPS)
