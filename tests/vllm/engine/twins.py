"""Faulty twins of an engine's rules for waves, of the coordinator and of a front end, ten lines each.

A *wave* is a period in which all engines of a group step in lockstep. Keys such as M-EL-7 name mutants of specification
2.12.
"""

from __future__ import annotations

from dpsim.vllm.engine.client import ClientView
from dpsim.vllm.engine.coordination import Changed, Coordination, Coordination033, FirstRequest, StartWave
from dpsim.vllm.engine.finish_sync import Numbers, PauseVotes033, Verdict
from dpsim.vllm.engine.waves import Out, PauseMode, PauseState, Release014, Release024, Release033


class LaterWavesOnly(Release033):
    """Mutant M-EL-7: an engine ignores a wake for the current wave."""

    def start_dp_wave(self, wave: int, exclude: int | None) -> None:
        if wave > self.current_wave:
            super().start_dp_wave(wave, exclude)


class IgnoresWhilePausing(Release033):
    """Mutant M-EL-9: an engine ignores wakes as soon as it has a pause, before all engines have agreed to pause."""

    def start_dp_wave(self, wave: int, exclude: int | None) -> None:
        if not self.pending_pause:
            super().start_dp_wave(wave, exclude)


class WokenWhilePaused(Release033):
    """Mutant M-EL-10: an engine obeys wakes although all engines have agreed to pause."""

    def start_dp_wave(self, wave: int, exclude: int | None) -> None:
        if wave >= self.current_wave and exclude != self.index:
            self.current_wave = wave
            self.engines_running = True


class KeepsCounting(Release033):
    """Mutant M-EL-4: the step counter does not restart in the next wave."""

    def end_iteration(self, was_running: bool) -> list[Out]:
        step = self.step_counter
        outs = super().end_iteration(was_running)
        self.step_counter = step
        return outs


class OwnWork(Release033):
    """Mutant M-EL-6: an engine continues only if it has work itself."""

    def contribution(self, unfinished: bool) -> Numbers:
        self.unfinished = unfinished
        return super().contribution(unfinished)

    def synced(self, total: Numbers) -> None:
        super().synced(total)
        self.engines_running = self.unfinished


class AllTell(Release033):
    """Mutant M-EL-17: every rank reports the end of a wave, not only rank 0."""

    def _wave_ends(self) -> list[Out]:
        done = self._out("wave_complete")
        super()._wave_ends()
        return [done]


class ReportsAPausingWave(Release033):
    """Rank 0 reports a wave that a pause has begun."""

    def end_iteration(self, was_running: bool) -> list[Out]:
        pending, self.pending_pause = self.pending_pause, False
        outs = super().end_iteration(was_running)
        self.pending_pause = pending
        return outs


class WokenByPausedRequest(Release033):
    """A request starts a paused engine."""

    def add(self, wave: int) -> list[Out]:
        self.pause_state, state = PauseState.UNPAUSED, self.pause_state
        outs = super().add(wave)
        self.pause_state = state
        return outs


class StartsWithoutTheCoordinator(Release033):
    """An engine starts with its request, but does not inform the coordinator, so no other engine wakes (M-EL-8)."""

    def add(self, wave: int) -> list[Out]:
        super().add(wave)
        return []


class PauseWaits(Release033):
    """A pause does not start an idle engine. Mutant M-EL-9 also ignores wakes."""

    def pause(self, mode: PauseMode) -> None:
        running = self.engines_running
        super().pause(mode)
        self.engines_running = running


class ResumesEarly(Release033):
    """An engine resumes although its pause is not complete."""

    def resume(self) -> bool:
        self.pending_pause = False
        return super().resume()


class ResumesWithoutABarrier(Release033):
    """Mutant M-EL-11: an engine resumes without the barrier."""

    def resume(self) -> bool:
        super().resume()
        return False


class ResumesIdle(Release033):
    """After the barrier of a resume, no engine runs, even if one has work."""

    def resumed(self, any_work: bool) -> None:
        self.engines_running = False


class ForgetsNothing(Release033):
    """After a resume, an engine still ignores wakes."""

    def resume(self) -> bool:
        barrier = super().resume()
        self.ignore_start_dp_wave = barrier or self.ignore_start_dp_wave
        return barrier


class NoFirstSync(Release033):
    """The engine does not sync in the first step, as in release 0.24."""

    class Sync(PauseVotes033):
        def due(self, step: int) -> bool:
            return step % self.interval == 0

    sync_form = Sync


class StopsPartial(Release033):
    """If only some engines have a pause, the group stops (breaks invariant I-EL-9)."""

    class Sync(PauseVotes033):
        def verdict(self, total: Numbers) -> Verdict:
            return Verdict(total[0] > 0, super().verdict(total).consensus)

    sync_form = Sync


class OnlyIfAllWork(Release033):
    """Mutant M-EL-5: the group continues only if all engines have work, instead of any."""

    class Sync(PauseVotes033):
        def verdict(self, total: Numbers) -> Verdict:
            running, consensus = super().verdict((0, total[1]))
            return Verdict(running or total[0] == self.size, consensus)

    sync_form = Sync


class OneStepShorter(Release033):
    """The interval between sync points is shorter by one step. On one rank only, it is mutant M-EL-3."""

    class Sync(PauseVotes033):
        def due(self, step: int) -> bool:
            return step == 1 or step % (self.interval - 1) == 0

    sync_form = Sync


class IgnoresLaterWaves(Release014):
    """An engine does not adopt a later wave that a front end sends with a request."""

    def add(self, wave: int) -> list[Out]:
        return super().add(min(wave, self.current_wave))


class StaysCurrent(Release014):
    """An engine does not increase the number of the wave when a wave ends."""

    def _wave_ends(self) -> list[Out]:
        outs = super()._wave_ends()
        self.current_wave -= 1
        return outs


class WokenWhilePaused024(Release024):
    """Mutant M-EL-10 in release 0.24, in which front ends wake engines."""

    def start_dp_wave(self, wave: int, exclude: int | None) -> None:
        ignores, self.ignore_start_dp_wave = self.ignore_start_dp_wave, False
        super().start_dp_wave(wave, exclude)
        self.ignore_start_dp_wave = ignores


# ---- the coordinator, and front ends


class AgainAndAgain(Coordination):
    """The coordinator starts a wave again that already runs."""

    def _start_wave(self, told: StartWave) -> Changed:
        self.engines_running = self.engines_running and told.wave != self.current_wave
        return super()._start_wave(told)


class WakesNoEngine(Coordination033):
    """The coordinator publishes a started wave to the front ends, but does not wake the other engines."""

    def _start_wave(self, told: StartWave) -> Changed:
        return super()._start_wave(told) and []


class ReportsNoFirstRequest(ClientView):
    """Mutant M-EL-8: the front end does not report a first request to the coordinator."""

    def _first_request(self, engine: int) -> FirstRequest | None:
        return None
