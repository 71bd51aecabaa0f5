"""Variants of pause and resume of engines in lockstep: the other mutants of specification 2.12.

They need a front end that pauses, with its own plan. Their twin is the healthy protocol with that plan.

    protocol: {name: engine, variant: M-EL-9}
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from dpsim.vllm.engine.client import ClientView
from dpsim.vllm.engine.coordination import Coordination
from dpsim.vllm.engine.frontend import Action, FrontEnd, Plan
from dpsim.vllm.engine.pause import Control
from dpsim.vllm.engine.waves import EngineWaves, PauseMode, PauseState, Release024, Release033
from dpsim.vllm.museum.engine import mutant
from dpsim.vllm.programs.engine import Engine

HEALTHY = "healthy: the protocol with a front end that pauses, the twin of"
MS = 1_000_000


class Pauses(Plan):
    """A pause and a resume; requests of 2 ms arrive between."""

    control = (
        (1 * MS, ("PAUSE", "keep")),
        (5 * MS, ("RESUME",)),
    )


class Updates(Plan):
    """A pause, when all requests so far have ended, and new weights."""

    control = (
        (1 * MS, ("WAIT",)),
        (1 * MS, ("PAUSE", "keep")),
        (4 * MS, ("UPDATE_WEIGHTS", 1)),
    )


class Drains(Plan):
    """A pause, new weights, a resume; and then the front end waits until the engines do not run."""

    control = (
        (1 * MS, ("PAUSE", "keep")),
        (4 * MS, ("UPDATE_WEIGHTS", 1)),
        (5 * MS, ("RESUME",)),
        (6 * MS, ("DRAIN",)),
    )


@mutant("engine-paused", None, reason=f"{HEALTHY} M-EL-9, M-EL-11, M-EL-11-subset, M-EL-13 and resume-refused")
class Paused(Engine):
    """The first front end pauses all engines and lets them resume."""

    replaced = MappingProxyType({Plan: Pauses})


@mutant("engine-updated", None, reason=f"{HEALTHY} pause-cpu-only")
class Updated(Engine):
    """The first front end pauses all engines and gives them new weights."""

    replaced = MappingProxyType({Plan: Updates})


@mutant("engine-updated-0.24", None, form="0.24", reason=f"{HEALTHY} M-EL-10 and wave-rearm-paused")
class Updated024(Updated):
    """The same with front ends that wake the engines, and engines that wait for their devices as those of 0.33.

    0.24 itself does not wait: a pause and new weights race with the last forward there.
    """

    replaced = MappingProxyType({Plan: Updates, Control: Control})


@mutant("engine-drained", None, reason=f"{HEALTHY} M-EL-12 and coord-latch")
class Drained(Engine):
    """The first front end pauses and resumes, and then waits until the engines do not run."""

    replaced = MappingProxyType({Plan: Drains})


class OnePhase(Release024):
    """A pause of each engine alone, as before 0.24: the engine stops as soon as it has nothing to do."""

    def pause(self, mode: PauseMode) -> None:
        self.pause_state = PauseState.PAUSED_ALL if mode == "keep" else PauseState.PAUSED_NEW


class Deaf(Release033):
    """The same pause in 0.33: a START does not wake a paused engine."""

    pause = OnePhase.pause

    def start_dp_wave(self, wave: int, exclude: int | None) -> None:
        if self.pause_state is PauseState.UNPAUSED:
            super().start_dp_wave(wave, exclude)


@mutant("M-EL-9", "HANG:COLLECTIVE:MISSING_RANK", twin="engine-paused")
class IgnoresStartWhilePausing(Paused):
    """An engine that pauses stops alone, and drops START from then on: a working engine never gets its partner.

    This is the simple repair of wave-rearm-paused, rejected in vllm pull request 39366. Read literally, M-EL-9 is a
    pause in two phases that ignores START while it is pending. That is harmless: a pending engine runs without a wake.
    """

    replaced = MappingProxyType({Plan: Pauses, EngineWaves: Deaf})


class NeverIgnores(Release024):
    def start_dp_wave(self, wave: int, exclude: int | None) -> None:
        self.ignore_start_dp_wave, ignores = False, self.ignore_start_dp_wave
        super().start_dp_wave(wave, exclude)
        self.ignore_start_dp_wave = ignores


@mutant("M-EL-10", "CRASH:ASSERTIONERROR", form="0.24", twin="engine-updated-0.24")
class HonoursStartWhenPaused(Updated024):
    """START wakes an engine although all engines have agreed to pause (I-EL-8)."""

    replaced = MappingProxyType({**Updated024.replaced, EngineWaves: NeverIgnores})


class NoBarrier(Control):
    async def barrier(self, work: bool) -> bool:
        return work


@mutant("M-EL-11", "HANG:COLLECTIVE:MISSING_RANK", twin="engine-paused")
class ResumesAlone(Paused):
    """Engines resume without a barrier: one that has work steps, and the others do not know."""

    replaced = MappingProxyType({Plan: Pauses, Control: NoBarrier})


class AsksFew(FrontEnd):
    few = ""

    def asked(self, engines: Sequence[int], what: str) -> Sequence[int]:
        return engines[:1] if what == self.few else engines


class ResumesOne(AsksFew):
    few = "RESUME"


@mutant("M-EL-11-subset", "HANG:COLLECTIVE:MISSING_RANK", twin="engine-paused")
class ResumesSubset(Paused):
    """The front end asks one engine alone to resume. It waits for the others."""

    replaced = MappingProxyType({Plan: Pauses, FrontEnd: ResumesOne})


class PausesAndResumes(Plan):
    """The first front end pauses, the last one resumes, and neither knows of the other. No front end sends requests: if
    the pause comes last, the engines stay paused, and a request would wait without end.
    """

    def of(self, frontend: int) -> list[Action]:
        return [("PAUSE", "keep") if frontend == 0 else ("RESUME",)]


@mutant("resume-refused", "HANG:COLLECTIVE:*", twin="engine-paused")
class ResumesBesideThePause(Paused):
    """Two clients control one group. An engine that received the pause first refuses the resume, by itself.

    Another engine received the resume before the pause, or after the end of the pause. It waits in the barrier for the
    first one. That follows 2.6: each engine decides alone whether a pause is under way, and they meet only to resume.
    The engine that refused sleeps, or it runs a forward for which the other one is missing. No report is known.
    """

    replaced = MappingProxyType({Plan: PausesAndResumes})


class PausesOne(AsksFew):
    few = "PAUSE"


@mutant("M-EL-13", "HANG:COLLECTIVE:MISSING_RANK", twin="engine-paused")
class PausesSubset(Paused):
    """The front end asks one engine of an idle group to pause: this engine alone runs a forward."""

    replaced = MappingProxyType({Plan: Pauses, FrontEnd: PausesOne})


@mutant("M-EL-12", "HANG:*", twin="engine-drained")
class AssumesRunning(Drained):
    """Front ends wake engines through the coordinator. It reports them as running as soon as it has forwarded that.

    Paused engines drop the wake, so a front end waits for a drain that never comes (vllm pull request 51481).
    coord-latch is the same mistake in a world with a request after the resume.
    """

    replaced = MappingProxyType({Plan: Drains, Coordination: Coordination, ClientView: ClientView})
