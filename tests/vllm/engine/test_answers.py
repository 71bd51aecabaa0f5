"""Compares the model with 400 stored histories of vLLM's engine loop and coordinator, step by step.

A history is a sequence of messages and the answers of vLLM's own code. For each comparison, faulty twins with one
mistake prove that it fails on wrong answers.
"""

from __future__ import annotations

from functools import cache

import pytest

from dpsim.vllm.engine.coordination import (
    Changed,
    Coordination,
    Coordination033,
    FirstRequest,
    StartDpWave,
    WaveComplete,
)
from dpsim.vllm.engine.waves import EngineWaves, Release014, Release024, Release033
from dpsim_engine import comparison
from dpsim_engine.comparison import Difference, Row
from dpsim_engine.stored import answers
from dpsim_engine.waves import COORDINATION, WAVES
from tests.vllm.engine import twins


@cache
def histories(version: str) -> list[Row]:
    """Returns the stored histories of a version. The cache reads them once for all twins."""
    return answers("waves", version)


# ---- one engine


def differing(version: str, kind: type[EngineWaves]) -> list[Difference]:
    return comparison.differing(WAVES, histories(version), kind)


@pytest.mark.parametrize(("version", "kind"), [("0.14.0", Release014), ("0.33.0", Release033)])
def test_every_history_of_an_engine(version: str, kind: type[EngineWaves]) -> None:
    """The model of an engine answers all stored histories as vLLM does."""
    assert len([row for row in histories(version) if WAVES.applies(row)]) == 100
    assert differing(version, kind) == []


TWINS = [
    *(twins.LaterWavesOnly, twins.IgnoresWhilePausing, twins.WokenWhilePaused, twins.KeepsCounting, twins.OwnWork),
    *(
        twins.AllTell,
        twins.ReportsAPausingWave,
        twins.WokenByPausedRequest,
        twins.StartsWithoutTheCoordinator,
        twins.PauseWaits,
    ),
    *(twins.ResumesEarly, twins.ResumesWithoutABarrier, twins.ResumesIdle, twins.ForgetsNothing, twins.NoFirstSync),
    *(twins.StopsPartial, twins.OnlyIfAllWork, Release024),
]


@pytest.mark.parametrize("twin", TWINS)
def test_another_engine_is_found(twin: type[EngineWaves]) -> None:
    """The comparison with the histories of release 0.33 fails for each faulty twin of an engine."""
    assert differing("0.33.0", twin)


def test_014_has_no_pauses() -> None:
    """Release 0.14 has no pauses of a group, so an engine raises."""
    engine = Release014(index=0, size=2, has_coordinator=True, interval=32)
    for asked in (lambda: engine.pause("keep"), engine.resume):
        with pytest.raises(NotImplementedError, match="do not pause as a group"):
            asked()


@pytest.mark.parametrize("twin", [twins.IgnoresLaterWaves, twins.StaysCurrent, Release033])
def test_another_engine_of_014_is_found(twin: type[EngineWaves]) -> None:
    assert differing("0.14.0", twin)


# ---- the coordinator


def coordinated(version: str, kind: type[Coordination]) -> list[Difference]:
    return comparison.differing(COORDINATION, histories(version), kind)


@pytest.mark.parametrize(("version", "kind"), [("0.14.0", Coordination), ("0.33.0", Coordination033)])
def test_every_history_of_the_coordinator(version: str, kind: type[Coordination]) -> None:
    """The model of the coordinator answers all stored histories as vLLM does."""
    assert len([row for row in histories(version) if COORDINATION.applies(row)]) == 100
    assert coordinated(version, kind) == []


class LeavesOut(Coordination):
    """If a first request belongs to an old wave, the coordinator does not wake the engine that received it."""

    def _first_request(self, told: FirstRequest) -> Changed:
        changed = super()._first_request(told)
        return changed and [StartDpWave(self.current_wave, told.exclude)]


class EndsOldWaves(Coordination):
    """A message that an old wave is over ends the running wave."""

    def _wave_complete(self, told: WaveComplete) -> Changed:
        return super()._wave_complete(told._replace(wave=max(told.wave, self.current_wave)))


class Mixes(Coordination):
    """The coordinator publishes the counts of two steps together."""

    def _later_step(self) -> None:
        pass


class GrowsOn(Coordination):
    """When engines are added, the coordinator of release 0.14 keeps its state, as that of 0.33 does."""

    def _grown(self) -> None:
        pass


class KeepsSteps(Coordination033):
    """The coordinator compares the steps of engines also if they are not in lockstep, as release 0.14 does."""

    def _later_step(self) -> None:
        Coordination._later_step(self)


@pytest.mark.parametrize(
    ("version", "twin"),
    [
        *[("0.14.0", twin) for twin in (twins.AgainAndAgain, LeavesOut, EndsOldWaves, Mixes, GrowsOn, Coordination033)],
        *[("0.33.0", twin) for twin in (twins.WakesNoEngine, Mixes, KeepsSteps, Coordination)],
    ],
)
def test_another_coordinator_is_found(version: str, twin: type[Coordination]) -> None:
    assert coordinated(version, twin)
