"""Historical bugs of waves and pauses, area 1: bugs of engines, each in ten lines.

protocol: {name: engine, variant: pause-cpu-only}
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


@mutant("wave-rearm-paused", "HANG:COLLECTIVE:*", form="0.24", twin="engine-updated-0.24")
class RearmsWhenPaused(Updated024):
    """A late wake moves one paused engine into a dummy forward, while the other updates its weights.

    Vllm pull request 39366 (issues 36594, 38009): each engine paused alone, and still reacted to wakes.
    """

    replaced = MappingProxyType({**Updated024.replaced, EngineWaves: OnePhase})


@mutant("coord-latch", "HANG:*", twin="engine-drained")
class Latched(Drained):
    """The coordinator believes that engines run, as it forwarded a wake that they dropped. So it keeps the next wake.

    Vllm pull request 51481: only a running engine may report that engines run. M-EL-12 is the same mistake in a world
    without a second request.
    """

    replaced = MappingProxyType({Plan: Drains, Coordination: Coordination, ClientView: ClientView})


class Unsynchronised(Control):
    async def device_idle(self) -> None:
        pass


@mutant("pause-cpu-only", "RACE:BUFFER", twin="engine-updated")
class PausedOnTheHost(Updated):
    """An engine answers a pause when its host is idle, while the last dummy forward still reads the weights.

    Vllm pull requests 52914 and 52957.
    """

    replaced = MappingProxyType({Plan: Updates, Control: Unsynchronised})


@mutant("offline-dp-exit", "HANG:COLLECTIVE:MISSING_RANK")
class AsksItself(OfflineLoop):
    """A rank of a batch job asks its own scheduler whether work is left, and ends: the others wait in their forwards.

    Vllm issue 18932.
    """

    async def has_unfinished_requests(self) -> bool:
        return self.scheduler.has_unfinished(UNPAUSED)
