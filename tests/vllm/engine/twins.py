"""Faulty twins of an engine's waves, of the coordinator and of a front end, ten lines each (specification 2.12)."""

from __future__ import annotations

from dpsim.vllm.engine.client import ClientView
from dpsim.vllm.engine.coordination import Changed, Coordination, Coordination033, FirstRequest, StartWave
from dpsim.vllm.engine.finish_sync import Numbers, PauseVotes033, Verdict
from dpsim.vllm.engine.waves import Out, PauseMode, PauseState, Release014, Release024, Release033


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


class TellsNobody(Release033):
    """A request runs where it came, and no other engine is woken (M-EL-8 of 0.33)."""

    def add(self, wave: int) -> list[Out]:
        super().add(wave)
        return []


class PauseWaits(Release033):
    """A pause does not set an idle engine running. M-EL-9 ignores wakes beside that."""

    def pause(self, mode: PauseMode) -> None:
        running = self.engines_running
        super().pause(mode)
        self.engines_running = running


class ResumesEarly(Release033):
    """A resume does not wait for the pause before it."""

    def resume(self) -> bool:
        self.pending_pause = False
        return super().resume()


class ResumesAlone(Release033):
    """M-EL-11: a resume without the barrier."""

    def resume(self) -> bool:
        super().resume()
        return False


class ResumesIdle(Release033):
    """After the barrier no engine runs, whichever has work."""

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


class OnlyIfAllWork(Release033):
    """M-EL-5: AND in the place of OR."""

    class Sync(PauseVotes033):
        def verdict(self, total: Numbers) -> Verdict:
            running, consensus = super().verdict((0, total[1]))
            return Verdict(running or total[0] == self.size, consensus)

    sync_form = Sync


class TwiceAsOften(Release033):
    """M-EL-3, if one rank has it: another interval."""

    class Sync(PauseVotes033):
        def due(self, step: int) -> bool:
            return step == 1 or step % (self.interval - 1) == 0

    sync_form = Sync


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


class WokenWhilePaused024(Release024):
    """M-EL-10 where front ends wake engines."""

    def start_dp_wave(self, wave: int, exclude: int | None) -> None:
        ignores, self.ignore_start_dp_wave = self.ignore_start_dp_wave, False
        super().start_dp_wave(wave, exclude)
        self.ignore_start_dp_wave = ignores


# ---- the coordinator, and front ends


class AgainAndAgain(Coordination):
    """A wave that runs is begun again."""

    def _start_wave(self, told: StartWave) -> Changed:
        self.engines_running = self.engines_running and told.wave != self.current_wave
        return super()._start_wave(told)


class WakesNobody(Coordination033):
    """What an engine says of a wave goes to the front ends, and not to the other engines."""

    def _start_wave(self, told: StartWave) -> Changed:
        return super()._start_wave(told) and []


class TellsNoFirstRequest(ClientView):
    """M-EL-8: no engine hears of a first request."""

    def _first_request(self, engine: int) -> FirstRequest | None:
        return None
