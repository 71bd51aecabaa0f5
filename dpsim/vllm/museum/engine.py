"""Variants of the loop of engines in lockstep: the mutants of specification 2.12.

Each is the healthy protocol with one mistake, in the piece concerned; those of pause and resume are in
`dpsim.vllm.museum.engine_pauses`. "One engine" is the last of them.

    protocol: {name: engine, variant: M-EL-3}"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpsim.contract.interface import Frozen, Rank
from dpsim.contract.registry import register_variant
from dpsim.vllm.engine.client import ClientView033
from dpsim.vllm.engine.coordination import Coordination033, Counts, FirstRequest, Sent
from dpsim.vllm.engine.finish_sync import Numbers, PauseVotes033, Verdict
from dpsim.vllm.engine.forward import EngineForward
from dpsim.vllm.engine.frontend import FrontEnd
from dpsim.vllm.engine.loop import EngineLoop
from dpsim.vllm.engine.waves import EngineWaves, Out, Release033


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
    """An engine uses its own number, not the reduced one."""

    async def reduce(self, numbers: Numbers) -> Numbers:
        await super().reduce(numbers)
        return numbers


@mutant("M-EL-14", "MISMATCH:COLLECTIVE:COUNT")
class OldSync(EngineLoop):
    """One engine brings one number, as releases before the pause did, while the others bring two.

    It sums as they do. Those releases took the maximum, so their reduction differs, too.
    """

    async def reduce(self, numbers: Numbers) -> Numbers:
        if not is_last(self.waves):
            return await super().reduce(numbers)
        (work,) = await super().reduce(numbers[:1])
        return work, 0


@mutant("M-EL-15", "HANG:COLLECTIVE:MISSING_RANK")
class DummyOfTheFirst(EngineForward):
    """Only the first worker of an engine runs the dummy: workers of other engines wait for its other workers."""

    def call(self, what: str, *arguments: Frozen) -> None:
        if what != "dummy":
            super().call(what, *arguments)


@mutant("M-EL-16", "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS")
class EmptyBatchCounts(EngineLoop):
    """A batch without tokens counts as executed, so the engine runs no dummy."""

    async def step(self) -> bool:
        await super().step()
        return True


# ---- the loop around a step (10.8)


@mutant("M-ES-3", "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS")
class SyncsFirst(EngineLoop):
    """The finish sync comes before the dummy: peers wait in their forwards for it, and this engine for them."""

    async def meet(self, executed: bool, local: bool) -> None:
        await self.sync(local)
        if not executed and self.makes_dummy():
            await self.forward.dummy()


@mutant(
    "M-ES-15",
    None,
    reason="equivalent where the core is its worker: one thread makes agreements and syncs, equally on all engines. "
    "A core with separate workers is no member of their group, and cannot do it",
)
class SyncsAmongWorkers(EngineLoop):
    """The finish sync uses the group in which workers agree, between the agreements of two iterations."""

    def __init__(self, rank: Rank, *given: Any) -> None:
        super().__init__(rank, *given)
        self.group = rank.host("dp_cpu")


@mutant("M-ES-15-alone", "HANG:COLLECTIVE:MISSING_RANK")
class SyncsAloneAmongWorkers(EngineLoop):
    """One engine uses the workers' group for its finish sync: a peer that agrees there finds another collective."""

    def __init__(self, rank: Rank, *given: Any) -> None:
        super().__init__(rank, *given)
        self.group = rank.host("dp_cpu" if is_last(self.waves) else "dp_engine")


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
    """A wave goes on only while all engines have work: it ends while one still has some (I-EL-6)."""

    sync_form = All


@mutant("M-EL-7", "HANG:COLLECTIVE:MISSING_RANK")
class OnlyLaterWaves(Release033):
    """An engine drops START of the current wave, as if the wave were over."""

    def start_dp_wave(self, wave: int, exclude: int | None) -> None:
        if wave > self.current_wave:
            super().start_dp_wave(wave, exclude)


@mutant("M-EL-17", None, reason="equivalent for safety: the coordinator drops a repeated report that a wave is over")
class AllTell(Release033):
    """Every engine reports to the coordinator that a wave is over."""

    def _wave_ends(self) -> list[Out]:
        told = self._out("wave_complete")
        return super()._wave_ends() or [told]


@mutant("M-EL-8", "HANG:COLLECTIVE:MISSING_RANK", form="0.14")
class ForgetsFirstRequest(FrontEnd):
    """The coordinator does not learn of the first request: one engine runs, and nothing wakes the others."""

    def first_request(self, told: FirstRequest) -> None:
        pass


# ---- load


@mutant("load-off-by-one", "CRASH:WRONGLOAD")
class LoadOffByOne(ClientView033):
    """A front end uses the counts of the engine before for each engine; the first one gets the last of the list."""

    def heard(self, counts: Counts | None, wave: int, running: bool) -> None:
        super().heard(counts, wave, running)
        if counts is not None:
            self.load = {engine: counts[engine - 1] for engine in self.engines}


@mutant("swapped-counts", "CRASH:WRONGLOAD")
class CountsSwapped(Coordination033):
    """The coordinator publishes waiting requests as running ones, and the other way round."""

    def _state(self, counts: Counts | None) -> Sent:
        return super()._state(counts and tuple((runs, waits, *usage) for waits, runs, *usage in counts))
