"""The program `whole_engine_watched`: as `whole_engine`, but each participant notices a death, and ends.

    protocol: {name: whole_engine_watched}
    topology: {data_parallel_size: 2, pipeline_parallel_size: 2}
    faults: [{kind: die, rank: 1, at: {site: experts.combine, ordinal: 0}}]

A core watches its workers, as vLLM's executor does, and what a core of `engine_watched` watches. A worker watches only
its core, by a death pipe. So the news of a death spreads through the cores:

    worker 1 dies   its core aborts, answers its requests with errors, and ends
    the core ends   its other workers abort and end; the other cores do as this core does

Sources: those of `dpsim.vllm.engine.watched`; specification 7.3 and 10.1.
"""

from __future__ import annotations

from typing import Any, ClassVar

from dpsim.contract.interface import Frozen, Rank
from dpsim.vllm.engine.deaths import DEATHS, EngineDeadError
from dpsim.vllm.engine.forward import RPC
from dpsim.vllm.engine.layout import Layout
from dpsim.vllm.engine.monitor import FREED, Freed, Monitor
from dpsim.vllm.engine.watched import WatchedLoop
from dpsim.vllm.pipeline.batches import Batch
from dpsim.vllm.whole.batch_queue import QueuedLoop
from dpsim.vllm.whole.calls import ANSWERS, Executor
from dpsim.vllm.whole.stage_worker import StageWorker

GONE = ("GONE",)


class CoreMonitor(Monitor):
    """The monitor of a core. It also watches the core's workers."""

    boxes: ClassVar[tuple[str, ...]] = ("input", ANSWERS)
    hosts = ("dp_engine",)
    devices: tuple[str, ...] = ()

    def watched(self) -> tuple[int, ...]:
        return *self.layout.others(self.layout.engine(self.rank.rank)), *super().watched()


class WorkerMonitor(Monitor):
    """The monitor of a worker. `core`: the core that it watches. `shared`: whether its stage has several workers."""

    boxes = (RPC,)
    hosts = ("dp_cpu", "pp_cpu")
    devices: tuple[str, ...] = ("ep", "dp", "pp", "pp_broadcast")

    def __init__(self, rank: Rank, layout: Layout, core: int, shared: bool) -> None:
        super().__init__(rank, layout)
        self.core = core
        self.devices = (*self.devices, *["tp"] * shared)

    def watched(self) -> tuple[int, ...]:
        return (self.core,)


class WatchedCore(WatchedLoop, QueuedLoop[Batch]):
    """A core. If it ends normally, it announces this to its workers as well, and they end in the same way."""

    monitor = CoreMonitor

    def leave(self, shut_down: bool) -> None:
        super().leave(shut_down)
        word = ("SHUTDOWN",) if shut_down else ("LEFT", self.rank.rank)
        for worker in self.layout.others(self.index):
            self.rank.send(worker, DEATHS, word, "engine.left_worker")


class WatchedExecutor(Executor):
    """An executor whose wait for answers ends when the monitor gives up."""

    async def answer(self, what: str) -> Frozen:
        answer = await super().answer(what)
        if answer == GONE:
            raise Freed
        return answer


class WatchedWorker(StageWorker):
    """A worker with a monitor thread."""

    idle = False
    monitor: ClassVar[type[WorkerMonitor]] = WorkerMonitor

    async def run(self) -> None:
        monitor = self.monitor(self.rank, self.layout, self.core, self.shared)
        monitor.watch()
        thread = self.rank.start("monitor", monitor.run)
        try:
            await super().run()
        except FREED:
            await thread.join("monitor.join")
            if not monitor.shut_down:
                raise EngineDeadError(f"rank {self.rank.rank} ends: {monitor.why}") from None
            self.leave()
        else:
            self.leave()
            await thread.join("monitor.join")

    async def do(self, call: Any) -> bool:
        if call == GONE:
            raise Freed
        return await super().do(call)

    def leave(self) -> None:
        """Leave in order: its core does not take it for a death, and its monitor ends."""
        for one in (self.core, self.rank.rank):
            self.rank.send(one, DEATHS, ("LEFT", self.rank.rank), "worker.left")
