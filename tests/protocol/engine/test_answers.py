"""Histories of the engine's own loop and coordinator: all 400 are equal, step by step, and twins are found by them."""

from __future__ import annotations

import pytest

from dpsim.protocol.engine.coordination import (
    Changed,
    Coordination,
    Coordination033,
    FirstRequest,
    StartDpWave,
    StartWave,
    WaveComplete,
)
from dpsim.protocol.engine.finish_sync import Numbers, PauseVotes033, Verdict
from dpsim.protocol.engine.waves import EngineWaves, Out, PauseMode, PauseState, Release014, Release024, Release033
from dpsim.testing.engine import comparison
from dpsim.testing.engine.comparison import Difference
from dpsim.testing.engine.stored import answers
from dpsim.testing.engine.waves import COORDINATION, WAVES

# ---- one engine


def differing(version: str, kind: type[EngineWaves]) -> list[Difference]:
    return comparison.differing(WAVES, answers("waves", version), kind)


@pytest.mark.parametrize(("version", "kind"), [("0.14.0", Release014), ("0.33.0", Release033)])
def test_every_history_of_an_engine(version: str, kind: type[EngineWaves]) -> None:
    assert len([row for row in answers("waves", version) if WAVES.applies(row)]) == 100
    assert differing(version, kind) == []


class LaterWavesOnly(Release033):
    """M-EL-7: a wake for the current wave is lost."""

    def start_dp_wave(self, wave: int, exclude: int | None) -> None:
        if wave > self.current_wave:
            super().start_dp_wave(wave, exclude)


class IgnoresWhilePausing(Release033):
    """M-EL-9: wakes are ignored before all have the pause."""

    def start_dp_wave(self, wave: int, exclude: int | None) -> None:
        if not self.pending_pause:
            super().start_dp_wave(wave, exclude)


class WokenWhilePaused(Release033):
    """M-EL-10: wakes are followed when all have the pause."""

    def start_dp_wave(self, wave: int, exclude: int | None) -> None:
        if wave >= self.current_wave and exclude != self.index:
            self.current_wave = wave
            self.engines_running = True


class KeepsCounting(Release033):
    """M-EL-4: the step counter goes on into the next wave."""

    def end_iteration(self, was_running: bool) -> list[Out]:
        step = self.step_counter
        outs = super().end_iteration(was_running)
        self.step_counter = step
        return outs


class OwnWork(Release033):
    """M-EL-6: whether it goes on is its own work."""

    def contribution(self, unfinished: bool) -> Numbers:
        self.unfinished = unfinished
        return super().contribution(unfinished)

    def synced(self, total: Numbers) -> None:
        super().synced(total)
        self.engines_running = self.unfinished


class AllTell(Release033):
    """M-EL-17: every rank says that a wave is over."""

    def _wave_ends(self) -> list[Out]:
        done = self._out("wave_complete")
        super()._wave_ends()
        return [done]


class TellsWhilePausing(Release033):
    """Rank 0 says that a wave began which a pause began."""

    def end_iteration(self, was_running: bool) -> list[Out]:
        pending, self.pending_pause = self.pending_pause, False
        outs = super().end_iteration(was_running)
        self.pending_pause = pending
        return outs


class WokenByPausedRequest(Release033):
    """A request sets a paused engine running."""

    def add(self, wave: int) -> list[Out]:
        self.pause_state, state = PauseState.UNPAUSED, self.pause_state
        outs = super().add(wave)
        self.pause_state = state
        return outs


class PauseWaits(Release033):
    """A pause of an idle group is not told to the others, for this rank does not run."""

    def pause(self, mode: PauseMode) -> None:
        running = self.engines_running
        super().pause(mode)
        self.engines_running = running


class ResumesEarly(Release033):
    """A resume does not wait for the pause before it."""

    def resume(self) -> bool:
        self.pending_pause = False
        return super().resume()


class ResumesIdle(Release033):
    """After the barrier nobody runs, whoever has work."""

    def resumed(self, any_work: bool) -> None:
        self.engines_running = False


class ForgetsNothing(Release033):
    """Resume leaves wakes ignored."""

    def resume(self) -> bool:
        barrier = super().resume()
        self.ignore_start_dp_wave = barrier or self.ignore_start_dp_wave
        return barrier


class NoFirstSync(Release033):
    """The sync points of 0.24."""

    class Sync(PauseVotes033):
        def due(self, step: int) -> bool:
            return step % self.interval == 0

    sync_form = Sync


class StopsPartial(Release033):
    """Against I-EL-9: a pause of some stops all."""

    class Sync(PauseVotes033):
        def verdict(self, total: Numbers) -> Verdict:
            return Verdict(total[0] > 0, super().verdict(total).consensus)

    sync_form = Sync


TWINS = [
    *(LaterWavesOnly, IgnoresWhilePausing, WokenWhilePaused, KeepsCounting, OwnWork, AllTell, TellsWhilePausing),
    *(WokenByPausedRequest, PauseWaits, ResumesEarly, ResumesIdle, ForgetsNothing, NoFirstSync, StopsPartial),
    Release024,
]


@pytest.mark.parametrize("twin", TWINS)
def test_another_engine_is_found(twin: type[EngineWaves]) -> None:
    assert differing("0.33.0", twin)


def test_014_has_no_pauses() -> None:
    engine = Release014(index=0, size=2, has_coordinator=True, interval=32)
    for asked in (lambda: engine.pause("keep"), engine.resume):
        with pytest.raises(NotImplementedError, match="do not pause as a group"):
            asked()


class BelievesNobody(Release014):
    """A wave that a front end knows and this engine does not is not taken over."""

    def add(self, wave: int) -> list[Out]:
        return super().add(min(wave, self.current_wave))


class StaysCurrent(Release014):
    """The wave's number stays when it ends."""

    def _wave_ends(self) -> list[Out]:
        outs = super()._wave_ends()
        self.current_wave -= 1
        return outs


@pytest.mark.parametrize("twin", [BelievesNobody, StaysCurrent, Release033])
def test_another_engine_of_014_is_found(twin: type[EngineWaves]) -> None:
    assert differing("0.14.0", twin)


# ---- the coordinator


def coordinated(version: str, kind: type[Coordination]) -> list[Difference]:
    return comparison.differing(COORDINATION, answers("waves", version), kind)


@pytest.mark.parametrize(("version", "kind"), [("0.14.0", Coordination), ("0.33.0", Coordination033)])
def test_every_history_of_the_coordinator(version: str, kind: type[Coordination]) -> None:
    assert len([row for row in answers("waves", version) if COORDINATION.applies(row)]) == 100
    assert coordinated(version, kind) == []


class AgainAndAgain(Coordination):
    """A wave that runs is begun again."""

    def _start_wave(self, told: StartWave) -> Changed:
        self.engines_running = self.engines_running and told.wave != self.current_wave
        return super()._start_wave(told)


class LeavesOut(Coordination):
    """A first request of an old wave: the engine that has it is not woken."""

    def _first_request(self, told: FirstRequest) -> Changed:
        changed = super()._first_request(told)
        return changed and [StartDpWave(self.current_wave, told.exclude)]


class EndsOldWaves(Coordination):
    """A wave that was over already ends the one that runs."""

    def _wave_complete(self, told: WaveComplete) -> Changed:
        return super()._wave_complete(told._replace(wave=max(told.wave, self.current_wave)))


class Mixes(Coordination):
    """Counts of two steps are published together."""

    def _later_step(self) -> None:
        pass


class GrowsOn(Coordination):
    """As 0.33: a new engine changes nothing."""

    def _grown(self) -> None:
        pass


class KeepsSteps(Coordination033):
    """As 0.14: steps of engines that are not in lockstep are compared."""

    def _later_step(self) -> None:
        Coordination._later_step(self)


@pytest.mark.parametrize(
    ("version", "twin"),
    [
        *[("0.14.0", twin) for twin in (AgainAndAgain, LeavesOut, EndsOldWaves, Mixes, GrowsOn, Coordination033)],
        *[("0.33.0", twin) for twin in (Mixes, KeepsSteps, Coordination)],
    ],
)
def test_another_coordinator_is_found(version: str, twin: type[Coordination]) -> None:
    assert coordinated(version, twin)
