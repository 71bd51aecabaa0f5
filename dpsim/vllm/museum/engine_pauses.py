"""Variants of pause and resume of data-parallel engines: each class is a healthy program with one planted mistake.

The mutants are those of section 2.12 about pauses. The default program never pauses. So a healthy variant adds a front
end with a plan of pauses and resumes, and is the twin of the faulty variants.
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

HEALTHY = "healthy: the program with a front end that pauses, the twin of"
MS = 1_000_000


class Pauses(Plan):
    """The front end pauses the engines at 1 ms and resumes them at 5 ms; requests of the scenario arrive at 2 ms."""

    control = (
        (1 * MS, ("PAUSE", "keep")),
        (5 * MS, ("RESUME",)),
    )


class Updates(Plan):
    """The front end waits until all requests so far have ended, pauses the engines, and sends new weights."""

    control = (
        (1 * MS, ("WAIT",)),
        (1 * MS, ("PAUSE", "keep")),
        (4 * MS, ("UPDATE_WEIGHTS", 1)),
    )


class Drains(Plan):
    """The front end pauses, sends new weights, resumes, and then waits until the engines no longer run."""

    control = (
        (1 * MS, ("PAUSE", "keep")),
        (4 * MS, ("UPDATE_WEIGHTS", 1)),
        (5 * MS, ("RESUME",)),
        (6 * MS, ("DRAIN",)),
    )


@mutant("engine-paused", None, reason=f"{HEALTHY} M-EL-9, M-EL-11, M-EL-11-subset, M-EL-13 and resume-refused")
class Paused(Engine):
    """The first front end pauses all engines and resumes them."""

    replaced = MappingProxyType({Plan: Pauses})


@mutant("engine-updated", None, reason=f"{HEALTHY} pause-cpu-only")
class Updated(Engine):
    """The first front end pauses all engines and sends them new weights."""

    replaced = MappingProxyType({Plan: Updates})


@mutant("engine-updated-0.24", None, form="0.24", reason=f"{HEALTHY} M-EL-10 and wave-rearm-paused")
class Updated024(Updated):
    """Release 0.24, whose first front end pauses all engines and sends new weights, with the device wait of release
    0.33.

    Release 0.24 itself does not wait for the device before it answers a pause. So new weights race with the last
    forward there.
    """

    replaced = MappingProxyType({Plan: Updates, Control: Control})


@mutant("engine-drained", None, reason=f"{HEALTHY} M-EL-12 and coord-latch")
class Drained(Engine):
    """The first front end pauses and resumes all engines, and then waits until the engines no longer run."""

    replaced = MappingProxyType({Plan: Drains})


class OnePhase(Release024):
    """A pause of one engine alone, as before release 0.24: the engine stops as soon as it has nothing to do."""

    def pause(self, mode: PauseMode) -> None:
        self.pause_state = PauseState.PAUSED_ALL if mode == "keep" else PauseState.PAUSED_NEW


class Deaf(Release033):
    """A pause of one engine alone in release 0.33: a paused engine ignores START."""

    pause = OnePhase.pause

    def start_dp_wave(self, wave: int, exclude: int | None) -> None:
        if self.pause_state is PauseState.UNPAUSED:
            super().start_dp_wave(wave, exclude)


@mutant("M-EL-9", "HANG:COLLECTIVE:MISSING_RANK", twin="engine-paused")
class IgnoresStartWhilePausing(Paused):
    """An engine stops alone when it pauses and ignores START from then on, so a peer with work waits for it.

    This is the simple repair of the bug wave-rearm-paused, which vllm pull request 39366 rejects. Read literally,
    mutant M-EL-9 is another mistake: a pause in two phases that ignores START while it is pending. That mistake is
    harmless, because an engine with a pending pause keeps running without a START.
    """

    replaced = MappingProxyType({Plan: Pauses, EngineWaves: Deaf})


class NeverIgnores(Release024):
    """Waves of release 0.24 that react to START also after the agreement to pause."""

    def start_dp_wave(self, wave: int, exclude: int | None) -> None:
        self.ignore_start_dp_wave, ignores = False, self.ignore_start_dp_wave
        super().start_dp_wave(wave, exclude)
        self.ignore_start_dp_wave = ignores


@mutant("M-EL-10", "CRASH:ASSERTIONERROR", form="0.24", twin="engine-updated-0.24")
class HonoursStartWhenPaused(Updated024):
    """START wakes an engine although all engines have agreed to pause (invariant I-EL-8)."""

    replaced = MappingProxyType({**Updated024.replaced, EngineWaves: NeverIgnores})


class NoBarrier(Control):
    """A control that resumes without the barrier of all engines."""

    async def barrier(self, work: bool) -> bool:
        return work


@mutant("M-EL-11", "HANG:COLLECTIVE:MISSING_RANK", twin="engine-paused")
class ResumesAlone(Paused):
    """Engines resume without a barrier, so an engine that has work steps while its peers are still paused."""

    replaced = MappingProxyType({Plan: Pauses, Control: NoBarrier})


class AsksFew(FrontEnd):
    """A front end that sends one kind of command, `few`, to the first of the engines only."""

    few = ""

    def asked(self, engines: Sequence[int], what: str) -> Sequence[int]:
        return engines[:1] if what == self.few else engines


class ResumesOne(AsksFew):
    few = "RESUME"


@mutant("M-EL-11-subset", "HANG:COLLECTIVE:MISSING_RANK", twin="engine-paused")
class ResumesSubset(Paused):
    """The front end sends RESUME to one engine only, and this engine waits for the others in the barrier."""

    replaced = MappingProxyType({Plan: Pauses, FrontEnd: ResumesOne})


class PausesAndResumes(Plan):
    """The first front end pauses and the last one resumes, without any order between the two.

    No front end sends requests. If the pause arrives last, the engines stay paused, and a request would wait without
    end.
    """

    def of(self, frontend: int) -> list[Action]:
        return [("PAUSE", "keep") if frontend == 0 else ("RESUME",)]


@mutant("resume-refused", "HANG:COLLECTIVE", twin="engine-paused")
class ResumesBesideThePause(Paused):
    """Two clients control one group: the pause and the resume reach the engines in different orders.

    An engine that received the pause first refuses the resume, by its own state. Another engine received the resume
    before the pause, or after the pause ended, and waits in the barrier for the first engine. The specification allows
    this (2.6): each engine decides alone whether a pause is pending, and engines synchronize only in the resume. The
    engine that refused sleeps, or it runs a forward in which the other engine is missing. No report of this bug is
    known.
    """

    replaced = MappingProxyType({Plan: PausesAndResumes})


class PausesOne(AsksFew):
    few = "PAUSE"


@mutant("M-EL-13", "HANG:COLLECTIVE:MISSING_RANK", twin="engine-paused")
class PausesSubset(Paused):
    """The front end sends PAUSE to one engine of an idle group, so this engine alone runs a forward."""

    replaced = MappingProxyType({Plan: Pauses, FrontEnd: PausesOne})


@mutant("M-EL-12", "HANG:*", twin="engine-drained")
class AssumesRunning(Drained):
    """The coordinator reports engines as running as soon as it has forwarded a START to them.

    Paused engines drop the START. So a front end waits without end for the engines to finish (vllm pull request 51481).
    The bug coord-latch is the same mistake in a scenario with a request after the resume.
    """

    replaced = MappingProxyType({Plan: Drains, Coordination: Coordination, ClientView: ClientView})
