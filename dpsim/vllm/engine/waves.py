"""An engine's rules for waves: when the group runs, in which wave, and what the engine reports (specification 2.2 to
2.6).

A *wave* is a period in which all engines of a group step in lockstep; engines without work run dummy batches. A wave
begins when a request reaches an idle group. It ends at a finish sync (`dpsim.vllm.engine.finish_sync`) that finds no
work on any rank. Waves have numbers, so an engine can recognise a late wake for a wave that is over.

    >>> engine = Release033(index=1, size=3, has_coordinator=True, interval=16)
    >>> engine.add(wave=0)  # a request from a front end that believes in wave 0
    [Out(kind='start_wave', wave=0, to='coordinator')]
    >>> engine.at_sync_point(), engine.contribution(unfinished=False)  # after the first step
    (True, (0, 0))
    >>> engine.synced((0, 0))  # no rank has work
    >>> engine.end_iteration(was_running=False)  # rank 0 reports, rank 1 does not
    []
    >>> engine.engines_running, engine.current_wave, engine.step_counter
    (False, 1, 0)

Releases:

    Release014  the coordinator wakes the engines; an engine reports a request of a wave that is over
    Release024  such a request sets the engine running at once, and a group pauses in two phases
    Release031  rank 0 also reports a wave that it did not see begin
    Release033  an engine reports every first request itself

A pause has two phases. First, an engine with a pending pause keeps running, and votes for the pause at every sync
point. When all engines vote, each drops its vote. In the second phase it ignores START_DP_WAVE, so no wake starts an
engine while the others pause (invariant I-EL-8). `resume` ends the pause with a reduction over the group, before which
no engine steps (invariant I-EL-14).
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, Literal, NamedTuple

from dpsim.vllm.engine.finish_sync import FinishFlag, FinishSync, Numbers, Op, PauseVotes, PauseVotes033

PauseMode = Literal["abort", "wait", "keep"]


class PauseOnItsWay(RuntimeError):
    """An engine cannot resume, because its pause is not complete."""


class PauseState(Enum):
    """What a scheduler may run. PAUSED_NEW: only requests that run already. PAUSED_ALL: no request."""

    UNPAUSED = 0
    PAUSED_NEW = 1
    PAUSED_ALL = 2


class Out(NamedTuple):
    """A report of an engine to the coordinator or, without one, to its front end."""

    kind: Literal["start_wave", "wave_complete"]
    wave: int
    to: Literal["coordinator", "frontend"]


class EngineWaves:
    """The state of one engine. `index`: its data-parallel rank. `size`: the number of engines. `interval`: the steps
    between two sync points.

    The loop calls it in this order: messages (`add`, `start_dp_wave`, `pause`, `resume`), a step, then `synced` or
    `no_sync`, by `at_sync_point`. Last comes `end_iteration`, with `engines_running` as before the messages.
    """

    sync_form: ClassVar[type[FinishSync]]
    op: ClassVar[Op]

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "sync_form"):
            cls.op = cls.sync_form.op

    def __init__(self, index: int, size: int, has_coordinator: bool, interval: int) -> None:
        self.index = index
        self.size = size
        self.has_coordinator = has_coordinator
        self.sync = self.sync_form(size, interval)
        self.engines_running = False
        self.current_wave = 0
        self.step_counter = 0
        self.pending_pause = False
        self.ignore_start_dp_wave = False
        self.pause_state = PauseState.UNPAUSED

    # ---- messages

    def add(self, wave: int) -> list[Out]:
        """Process a request. `wave`: the wave of its front end. If it is later than the engine's wave, the engine
        adopts it.

        Returns the reports to send.
        """
        if not self.has_coordinator:
            return []
        late = wave < self.current_wave
        self.current_wave = max(wave, self.current_wave)
        return self._woken_by_request(late)

    def _woken_by_request(self, late: bool) -> list[Out]:
        """The reports that follow from a request. `late`: whether the wave of its front end is over on this engine."""
        raise NotImplementedError

    def start_dp_wave(self, wave: int, exclude: int | None) -> None:
        """Join a wave, unless this engine is `exclude`. An engine ignores a wave that is over, but joins one with its
        current number; without this, it would lose a wake (mutant M-EL-7).
        """
        if not self.ignore_start_dp_wave and exclude != self.index and wave >= self.current_wave:
            self.current_wave = wave
            self.engines_running = True

    def pause(self, mode: PauseMode) -> None:
        """Begin the first phase of a pause: this engine runs until all engines have a pause pending. It does not change
        requests.
        """
        self.pause_state = PauseState.PAUSED_ALL if mode == "keep" else PauseState.PAUSED_NEW
        self.pending_pause = True
        self.engines_running = True

    def resume(self) -> bool:
        """Returns whether the caller has to run the barrier: a MAX over whether each rank has work. It then calls
        `resumed`.

        Raises PauseOnItsWay if the pause is not complete.
        """
        if self.pending_pause or (self.engines_running and self.ignore_start_dp_wave):
            raise PauseOnItsWay(f"engine {self.index} cannot resume: a pause is still on its way, so wait for its end")
        if self.engines_running:
            return False
        self.pause_state = PauseState.UNPAUSED
        self.ignore_start_dp_wave = False
        return True

    def resumed(self, any_work: bool) -> None:
        """End the barrier. `any_work`: whether any rank has work."""
        self.engines_running = any_work

    # ---- an iteration

    def at_sync_point(self) -> bool:
        """Count the step. Returns whether it is a sync point."""
        self.step_counter += 1
        return self.sync.due(self.step_counter)

    def contribution(self, unfinished: bool) -> Numbers:
        return self.sync.contribution(unfinished, self.pending_pause)

    def synced(self, total: Numbers) -> None:
        """End the finish sync. `total`: the reduced numbers."""
        self.engines_running, consensus = self.sync.verdict(total)
        if consensus:
            self.ignore_start_dp_wave = True
            self.pending_pause = False

    def no_sync(self) -> None:
        """Between two sync points, every engine continues to run."""
        self.engines_running = True

    def end_iteration(self, was_running: bool) -> list[Out]:
        """The reports at the end of an iteration. `was_running`: whether the group ran at its beginning, before its
        messages.
        """
        return self._wave_continues(was_running) if self.engines_running else self._wave_ends()

    def _wave_ends(self) -> list[Out]:
        outs = [self._out("wave_complete")] if self.index == 0 or not self.has_coordinator else []
        self.current_wave += 1
        self.step_counter = 0
        return outs

    def _wave_continues(self, was_running: bool) -> list[Out]:
        return []

    def _out(self, kind: Literal["start_wave", "wave_complete"]) -> Out:
        return Out(kind, self.current_wave, "coordinator" if self.has_coordinator else "frontend")


class Release014(EngineWaves):
    """0.14 and page 003: front ends report first requests; an engine only one whose wave is over."""

    sync_form = FinishFlag

    def _woken_by_request(self, late: bool) -> list[Out]:
        return [self._out("start_wave")] if late and not self.engines_running else []

    def pause(self, mode: PauseMode) -> None:
        """Raises NotImplementedError, because this release has no pauses of a group."""
        raise NotImplementedError("engines of release 0.14 do not pause as a group")

    def resume(self) -> bool:
        raise NotImplementedError("engines of release 0.14 do not pause as a group")


class Release024(EngineWaves):
    """Release 0.24: as 0.14, but an engine that reports a request runs at once, and a paused engine does not report."""

    sync_form = PauseVotes

    def _woken_by_request(self, late: bool) -> list[Out]:
        return self._wake() if late else []

    def _wake(self) -> list[Out]:
        if self.engines_running or self.pause_state is not PauseState.UNPAUSED:
            return []
        self.engines_running = True
        return [self._out("start_wave")]


class Release031(Release024):
    """Release 0.31: rank 0 also reports a wave that began in this iteration, if it did not report the wave before."""

    sync_form = PauseVotes033

    def _wave_continues(self, was_running: bool) -> list[Out]:
        tells = self.index == 0 and self.has_coordinator
        return [self._out("start_wave")] if tells and not was_running and not self.pending_pause else []


class Release033(Release031):
    """Release 0.33: an engine reports every first request."""

    def _woken_by_request(self, late: bool) -> list[Out]:
        return self._wake()
