"""Variants of waves and pauses: bugs that data-parallel engines really had, each the healthy program with one mistake.

Each bug has the name of its entry in the museum, and is planted in about ten lines.
"""

from __future__ import annotations

from types import MappingProxyType

from dpsim.vllm.engine.batch_job import UNPAUSED, OfflineLoop
from dpsim.vllm.engine.client import ClientView
from dpsim.vllm.engine.coordination import Coordination
from dpsim.vllm.engine.frontend import Plan
from dpsim.vllm.engine.pause import Control
from dpsim.vllm.engine.waves import EngineWaves
from dpsim.vllm.museum.engine import mutant
from dpsim.vllm.museum.engine_pauses import Drained, Drains, OnePhase, Updated, Updated024, Updates


@mutant("wave-rearm-paused", "HANG:COLLECTIVE", form="0.24", twin="engine-updated-0.24")
class RearmsWhenPaused(Updated024):
    """A late START message moves one paused engine into a dummy forward, while the other engine updates its weights.

    Vllm pull request 39366 (issues 36594, 38009) repairs this. Before it, each engine paused alone, and still reacted
    to START.
    """

    replaced = MappingProxyType({**Updated024.replaced, EngineWaves: OnePhase})


@mutant("coord-latch", "HANG:*", twin="engine-drained")
class Latched(Drained):
    """After the coordinator forwards a START, it records that engines run, although the paused engines drop the
    message.

    So the coordinator does not forward the next START. Vllm pull request 51481 lets only a running engine report that
    engines run. Mutant M-EL-12 is the same mistake in a scenario without a second request.
    """

    replaced = MappingProxyType({Plan: Drains, Coordination: Coordination, ClientView: ClientView})


class Unsynchronised(Control):
    """A control that reports an idle device without a synchronization."""

    async def device_idle(self) -> None:
        pass


@mutant("pause-cpu-only", "RACE:BUFFER", twin="engine-updated")
class PausedOnTheHost(Updated):
    """An engine answers a pause when its host is idle, while the last dummy forward on the device still reads the
    weights.

    Vllm pull requests 52914 and 52957 repair this.
    """

    replaced = MappingProxyType({Plan: Updates, Control: Unsynchronised})


@mutant("offline-dp-exit", "HANG:COLLECTIVE:MISSING_RANK")
class AsksItself(OfflineLoop):
    """A rank of an offline batch job queries only its own scheduler for work, and exits when it has none.

    The other ranks wait for it in their forwards. Vllm issue 18932 reports this.
    """

    async def has_unfinished_requests(self) -> bool:
        return self.scheduler.has_unfinished(UNPAUSED)
