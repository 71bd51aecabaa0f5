"""Variants of the loop of engines in lockstep: the mutants of specification 2.12.

Each is the healthy protocol with one thing done wrong, in the piece that does it. Those of pause and resume need a
front end that pauses: their twin is the healthy protocol with the same plan. "One engine" is the last of them.

    protocol: {name: engine, variant: M-EL-3}

M-EL-15 (a dummy on one worker of an engine) needs engines of several workers, which `engine` has not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

from dpsim.protocol.engine.client import ClientView
from dpsim.protocol.engine.coordination import Coordination, FirstRequest
from dpsim.protocol.engine.finish_sync import Numbers, PauseVotes033, Verdict
from dpsim.protocol.engine.frontend import FrontEnd, Plan
from dpsim.protocol.engine.loop import EngineLoop
from dpsim.protocol.engine.pause import Control
from dpsim.protocol.engine.program import Engine
from dpsim.protocol.engine.waves import EngineWaves, Out, PauseMode, PauseState, Release024, Release033
from dpsim.registry import register_variant

HEALTHY = "healthy: the protocol with a front end that pauses, the twin of"
MS = 1_000_000


def mutant(
    name: str, expected: str | None, form: str = "0.33", reason: str = "", twin: str = ""
) -> Callable[[type[Any]], type[Any]]:
    return register_variant(name, protocol="engine", form=form, expected=expected, reason=reason, twin=twin)


def is_last(waves: EngineWaves) -> bool:
    return waves.index == waves.size - 1


# ---- the loop


@mutant("M-EL-1", "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS")
class NoDummies(EngineLoop):
    """An engine that ran nothing runs no dummy: its peers wait in their forwards."""

    def makes_dummy(self) -> bool:
        return False


@mutant("M-EL-2", "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS")
class SyncsWhenIdle(EngineLoop):
    """One engine makes the finish sync also when it is idle: a lone collective."""

    async def take_messages(self) -> bool:
        if not self.has_work() and is_last(self.waves):
            await self.reduce(self.waves.contribution(False))
        return await super().take_messages()


@mutant("M-EL-6", "DISAGREEMENT:WAVE")
class BelievesItself(EngineLoop):
    """An engine goes by its own number, not by the reduced one."""

    async def reduce(self, numbers: Numbers) -> Numbers:
        await super().reduce(numbers)
        return numbers


@mutant("M-EL-14", "MISMATCH:COLLECTIVE:*")
class OldSync(EngineLoop):
    """One engine asks as releases before the pause did: one number, and the largest."""

    async def reduce(self, numbers: Numbers) -> Numbers:
        if not is_last(self.waves):
            return await super().reduce(numbers)
        (work,) = await super().reduce(numbers[:1])
        return work, 0


@mutant("M-EL-16", "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS")
class EmptyBatchCounts(EngineLoop):
    """A batch without tokens counts as executed, so no dummy is run."""

    async def step(self) -> bool:
        await super().step()
        return True


# ---- waves


@mutant("M-EL-3", "HANG:COLLECTIVE:MISSING_RANK")
class OtherInterval(Release033):
    """One engine syncs twice as often as the others."""

    def __init__(self, index: int, size: int, has_coordinator: bool, interval: int) -> None:
        super().__init__(index, size, has_coordinator, interval // 2 if index == size - 1 else interval)


@mutant("M-EL-4", None, reason="latency only: all engines forget, so the next wave syncs late on all of them alike")
class CountsOn(Release033):
    """The step counter goes on when a wave ends."""

    def _wave_ends(self) -> list[Out]:
        steps = self.step_counter
        outs = super()._wave_ends()
        self.step_counter = steps
        return outs


@mutant("M-EL-4-alone", "HANG:COLLECTIVE:MISSING_RANK")
class OneCountsOn(CountsOn):
    """The step counter of one engine goes on when a wave ends: it syncs in other iterations than the others."""

    def _wave_ends(self) -> list[Out]:
        return super()._wave_ends() if is_last(self) else Release033._wave_ends(self)


class All(PauseVotes033):
    def verdict(self, total: Numbers) -> Verdict:
        unfinished, pausing = total
        return Verdict(unfinished == self.size or pausing % self.size != 0, pausing == self.size)


@mutant("M-EL-5", "CRASH:ASSERTIONERROR")
class AllHaveWork(Release033):
    """A wave goes on only while all engines have work: it ends where one still has some (I-EL-6)."""

    sync_form = All


@mutant("M-EL-7", "HANG:COLLECTIVE:MISSING_RANK")
class OnlyLaterWaves(Release033):
    """START of the current wave is dropped, as if it were over."""

    def start_dp_wave(self, wave: int, exclude: int | None) -> None:
        if wave > self.current_wave:
            super().start_dp_wave(wave, exclude)


@mutant("M-EL-17", None, reason="equivalent for safety: the coordinator drops what says again that a wave is over")
class AllTell(Release033):
    """Every engine tells the coordinator that a wave is over."""

    def _wave_ends(self) -> list[Out]:
        told = self._out("wave_complete")
        return super()._wave_ends() or [told]


@mutant("M-EL-8", "HANG:COLLECTIVE:MISSING_RANK", form="0.14")
class ForgetsFirstRequest(FrontEnd):
    """The coordinator does not hear of the first request: one engine runs, and nobody wakes the others."""

    def first_request(self, told: FirstRequest) -> None:
        pass


# ---- pause and resume


class Pauses(Plan):
    """A pause and a resume; requests of 2 ms come between."""

    control = (
        (1 * MS, ("PAUSE", "keep")),
        (5 * MS, ("RESUME",)),
    )


class Updates(Plan):
    """A pause, and new weights."""

    control = (
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


@mutant("engine-paused", None, reason=f"{HEALTHY} M-EL-9, M-EL-11, M-EL-11-subset and M-EL-13")
class Paused(Engine):
    """The first front end pauses all engines and lets them resume."""

    replaced = MappingProxyType({Plan: Pauses})


@mutant("engine-updated", None, reason=f"{HEALTHY} pause-cpu-only")
class Updated(Engine):
    """The first front end pauses all engines and gives them new weights."""

    replaced = MappingProxyType({Plan: Updates})


@mutant("engine-updated-0.24", None, form="0.24", reason=f"{HEALTHY} M-EL-10 and wave-rearm-paused")
class Updated024(Updated):
    """The same, where front ends wake the engines."""


@mutant("engine-drained", None, reason=f"{HEALTHY} M-EL-12 and coord-latch")
class Drained(Engine):
    """The first front end pauses and resumes, and then waits until the engines do not run."""

    replaced = MappingProxyType({Plan: Drains})


class OnePhase(Release024):
    """A pause of each engine alone, as before 0.24: it stops as soon as it has nothing to do."""

    def pause(self, mode: PauseMode) -> None:
        self.pause_state = PauseState.PAUSED_ALL if mode == "keep" else PauseState.PAUSED_NEW


class Deaf(Release033):
    """Also of 0.33: such a pause, and nothing moves an engine in it."""

    pause = OnePhase.pause

    def start_dp_wave(self, wave: int, exclude: int | None) -> None:
        if self.pause_state is PauseState.UNPAUSED:
            super().start_dp_wave(wave, exclude)


@mutant("M-EL-9", "HANG:COLLECTIVE:MISSING_RANK", twin="engine-paused")
class IgnoresStartWhilePausing(Paused):
    """An engine that pauses stops alone, and drops START from then on: a working one never gets its partner.

    The simple repair of wave-rearm-paused, rejected in vllm pull request 39366.
    """

    replaced = MappingProxyType({Plan: Pauses, EngineWaves: Deaf})


class NeverIgnores(Release024):
    def start_dp_wave(self, wave: int, exclude: int | None) -> None:
        self.ignore_start_dp_wave, ignores = False, self.ignore_start_dp_wave
        super().start_dp_wave(wave, exclude)
        self.ignore_start_dp_wave = ignores


@mutant("M-EL-10", "CRASH:ASSERTIONERROR", form="0.24", twin="engine-updated-0.24")
class HonoursStartWhenPaused(Updated024):
    """START moves an engine although all have agreed to pause (I-EL-8)."""

    replaced = MappingProxyType({Plan: Updates, EngineWaves: NeverIgnores})


class NoBarrier(Control):
    async def barrier(self, work: bool) -> bool:
        return work


@mutant("M-EL-11", "HANG:COLLECTIVE:MISSING_RANK", twin="engine-paused")
class ResumesAlone(Paused):
    """Engines resume without meeting: one that has work steps, and the others do not know."""

    replaced = MappingProxyType({Plan: Pauses, Control: NoBarrier})


class AsksFew(FrontEnd):
    few = ""

    def asked(self, engines: Sequence[int], what: str) -> Sequence[int]:
        return engines[:1] if what == self.few else engines


class ResumesOne(AsksFew):
    few = "RESUME"


@mutant("M-EL-11-subset", "HANG:COLLECTIVE:MISSING_RANK", twin="engine-paused")
class ResumesSubset(Paused):
    """One engine alone is told to resume, and waits for the others."""

    replaced = MappingProxyType({Plan: Pauses, FrontEnd: ResumesOne})


class PausesOne(AsksFew):
    few = "PAUSE"


@mutant("M-EL-13", "HANG:COLLECTIVE:MISSING_RANK", twin="engine-paused")
class PausesSubset(Paused):
    """One engine of an idle group alone is told to pause: it runs a forward, and nobody else does."""

    replaced = MappingProxyType({Plan: Pauses, FrontEnd: PausesOne})


@mutant("M-EL-12", "HANG:*", twin="engine-drained")
class AssumesRunning(Drained):
    """Front ends wake through the coordinator, which says that all run as soon as it has forwarded that.

    Paused engines drop it, so a front end waits for a drain that never comes (vllm pull request 51481).
    """

    replaced = MappingProxyType({Plan: Drains, Coordination: Coordination, ClientView: ClientView})
