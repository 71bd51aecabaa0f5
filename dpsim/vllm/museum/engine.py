"""Variants of the loop of data-parallel engines: each class is the healthy program with one planted mistake.

The mistakes are mutants of the engine's specification, section 2.12 (keys such as M-EL-3; see docs/keys.md).
"""

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
    """An engine that executed no batch runs no dummy batch either, so its peers wait for it in their forwards."""

    def makes_dummy(self) -> bool:
        return False


@mutant("M-EL-2", "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS")
class SyncsWhenIdle(EngineLoop):
    """One engine also joins the finish sync while it is idle, but its idle peers do not: it waits there alone."""

    async def take_messages(self) -> bool:
        if not self.has_work() and is_last(self.waves):
            await self.reduce(self.waves.contribution(False))
        return await super().take_messages()


@mutant("M-EL-6", "DISAGREEMENT:WAVE")
class BelievesItself(EngineLoop):
    """An engine uses the number that it sent to the finish sync, instead of the reduced one."""

    async def reduce(self, numbers: Numbers) -> Numbers:
        await super().reduce(numbers)
        return numbers


@mutant("M-EL-14", "MISMATCH:COLLECTIVE:COUNT")
class OldSync(EngineLoop):
    """One engine sends one number to the finish sync, as releases without pauses did, while the others send two.

    Those releases reduced by maximum. This engine reduces by sum as its peers do, so only the counts differ.
    """

    async def reduce(self, numbers: Numbers) -> Numbers:
        if not is_last(self.waves):
            return await super().reduce(numbers)
        (work,) = await super().reduce(numbers[:1])
        return work, 0


@mutant("M-EL-15", "HANG:COLLECTIVE:MISSING_RANK")
class DummyOfTheFirst(EngineForward):
    """Only the first worker of an engine runs the dummy batch.

    Workers of other engines wait for its other workers.
    """

    def call(self, what: str, *arguments: Frozen) -> None:
        if what != "dummy":
            super().call(what, *arguments)


@mutant("M-EL-16", "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS")
class EmptyBatchCounts(EngineLoop):
    """An engine counts a batch without tokens as executed, so it runs no dummy batch."""

    async def step(self) -> bool:
        await super().step()
        return True


# ---- the loop around a step (mutants of specification 10.8)


@mutant("M-ES-3", "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS")
class SyncsFirst(EngineLoop):
    """An engine joins the finish sync before it runs its dummy batch.

    Its peers wait for it in their forwards, and it waits for them in the finish sync.
    """

    async def meet(self, executed: bool, local: bool) -> None:
        await self.sync(local)
        if not executed and self.makes_dummy():
            await self.forward.dummy()


@mutant(
    "M-ES-15",
    None,
    reason="equivalent where the engine core is its own worker: one thread makes agreements and syncs, in the same "
    "order on all engines. A core with separate workers is no member of their group, and cannot make this mistake",
)
class SyncsAmongWorkers(EngineLoop):
    """Engines run the finish sync on the group in which their workers agree, between two agreements."""

    def __init__(self, rank: Rank, *given: Any) -> None:
        super().__init__(rank, *given)
        self.group = rank.host("dp_cpu")


@mutant("M-ES-15-alone", "HANG:COLLECTIVE:MISSING_RANK")
class SyncsAloneAmongWorkers(EngineLoop):
    """One engine runs its finish sync on the workers' group, while its peers run an agreement there."""

    def __init__(self, rank: Rank, *given: Any) -> None:
        super().__init__(rank, *given)
        self.group = rank.host("dp_cpu" if is_last(self.waves) else "dp_engine")


# ---- waves


@mutant("M-EL-3", "HANG:COLLECTIVE:MISSING_RANK")
class OtherInterval(Release033):
    """One engine joins the finish sync twice as often as the others."""

    def __init__(self, index: int, size: int, has_coordinator: bool, interval: int) -> None:
        super().__init__(index, size, has_coordinator, interval // 2 if index == size - 1 else interval)


@mutant("M-EL-4", None, reason="latency only: no engine resets its counter, so all engines sync late in the next wave")
class CountsOn(Release033):
    """No engine resets its step counter when a wave ends."""

    def _wave_ends(self) -> list[Out]:
        steps = self.step_counter
        outs = super()._wave_ends()
        self.step_counter = steps
        return outs


@mutant("M-EL-4-alone", "HANG:COLLECTIVE:MISSING_RANK")
class OneCountsOn(CountsOn):
    """One engine does not reset its step counter when a wave ends, so it syncs in other iterations than the others."""

    def _wave_ends(self) -> list[Out]:
        return super()._wave_ends() if is_last(self) else Release033._wave_ends(self)


class All(PauseVotes033):
    """Reads the sums of the finish sync wrongly: engines have work only if every engine has some, not at least one."""

    def verdict(self, total: Numbers) -> Verdict:
        unfinished, pausing = total
        return Verdict(unfinished == self.size or pausing % self.size != 0, pausing == self.size)


@mutant("M-EL-5", "CRASH:ASSERTIONERROR")
class AllHaveWork(Release033):
    """A wave continues only while all engines have work.

    So it ends while an engine still has some (invariant I-EL-6).
    """

    sync_form = All


@mutant("M-EL-7", "HANG:COLLECTIVE:MISSING_RANK")
class OnlyLaterWaves(Release033):
    """An engine ignores a START message of its current wave, as if that wave were over."""

    def start_dp_wave(self, wave: int, exclude: int | None) -> None:
        if wave > self.current_wave:
            super().start_dp_wave(wave, exclude)


@mutant("M-EL-17", None, reason="equivalent for safety: the coordinator drops a repeated report that a wave is over")
class AllTell(Release033):
    """Every engine reports to the coordinator that a wave is over, instead of one engine."""

    def _wave_ends(self) -> list[Out]:
        complete = self._out("wave_complete")
        return super()._wave_ends() or [complete]


@mutant("M-EL-8", "HANG:COLLECTIVE:MISSING_RANK", form="0.14")
class ForgetsFirstRequest(FrontEnd):
    """A front end does not notify the coordinator of the first request.

    So one engine runs, and no START wakes the others.
    """

    def first_request(self, event: FirstRequest) -> None:
        pass


# ---- load: the counts of requests by which front ends select an engine


@mutant("load-off-by-one", "CRASH:WRONGLOAD")
class LoadOffByOne(ClientView033):
    """For each engine, a front end reads the published request count of the previous engine.

    For the first engine it reads the last count of the list.
    """

    def update_counts(self, counts: Counts | None, wave: int, running: bool) -> None:
        super().update_counts(counts, wave, running)
        if counts is not None:
            self.load = {engine: counts[engine - 1] for engine in self.engines}


@mutant("swapped-counts", "CRASH:WRONGLOAD")
class CountsSwapped(Coordination033):
    """The coordinator publishes waiting requests as running ones, and running requests as waiting ones."""

    def _state(self, counts: Counts | None) -> Sent:
        return super()._state(counts and tuple((runs, waits, *usage) for waits, runs, *usage in counts))
