"""Parts of `whole_engine_watched`: `whole_engine`, and all learn of a death, an exception, a shutdown.

    protocol: {name: whole_engine_watched}
    topology: {data_parallel_size: 2, pipeline_parallel_size: 2}
    faults: [{kind: die, rank: 1, at: {site: experts.combine, ordinal: 0}}]

An engine is a core and its workers. A core watches its workers, as vLLM's executor does by their sentinels, and the
other cores, front ends and the coordinator, as `engine_watched` has it. A worker watches its core alone, by its death
pipe. So the news goes up and down, and no worker knows another one:

    worker 1 dies   its core: aborts, fails its requests, ends    the core's other workers: abort, end
                    the other cores, who watch it: likewise       their workers: likewise

Each has a monitor, which frees the main thread wherever it waits: a core at its messages, at its workers' answers or in
the finish sync; a worker at its calls, in an agreement, a transfer or behind its device.

Sources: as `dpsim.vllm.engine.watched`; specification chapters 7.3 and 10.1.
"""

from __future__ import annotations

from typing import Any, ClassVar

from dpsim.contract.interface import Frozen, Rank
from dpsim.vllm.engine.deaths import DEATHS, EngineDeadError
from dpsim.vllm.engine.forward import RPC
from dpsim.vllm.engine.layout import Layout
from dpsim.vllm.engine.monitor import Monitor
from dpsim.vllm.engine.watched import WatchedLoop
from dpsim.vllm.pipeline.batches import Batch
from dpsim.vllm.whole.batch_queue import QueuedLoop
from dpsim.vllm.whole.calls import ANSWERS, Executor
from dpsim.vllm.whole.stage_worker import StageWorker

GONE = ("GONE",)


class CoreMonitor(Monitor):
    """Of a core: its workers count as those that it cannot go on without."""

    boxes: ClassVar[tuple[str, ...]] = ("input", ANSWERS)
    hosts = ("dp_engine",)
    devices: tuple[str, ...] = ()

    def watched(self) -> tuple[int, ...]:
        return *self.layout.others(self.layout.engine(self.rank.rank)), *super().watched()


class WorkerMonitor(Monitor):
    """Of a worker. `core`: whom it watches; `shared`: whether its stage has several workers."""

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
    """A core. One that leaves in order tells its workers, too, and they leave as it does."""

    monitor = CoreMonitor

    def leave(self, shut_down: bool) -> None:
        super().leave(shut_down)
        word = ("SHUTDOWN",) if shut_down else ("LEFT", self.rank.rank)
        for worker in self.layout.others(self.index):
            self.rank.send(worker, DEATHS, word, "engine.left_worker")


class WatchedExecutor(Executor):
    """Who waits for an answer is freed by the monitor."""

    async def answer(self, what: str) -> Frozen:
        answer = await super().answer(what)
        if answer == GONE:
            raise EngineDeadError("the monitor has given up")
        return answer


class WatchedWorker(StageWorker):
    """A worker."""

    idle = False
    monitor: ClassVar[type[WorkerMonitor]] = WorkerMonitor

    async def run(self) -> None:
        monitor = self.monitor(self.rank, self.layout, self.core, self.shared)
        monitor.watch()
        thread = self.rank.start("monitor", monitor.run)
        try:
            await super().run()
        except Exception:
            why = await monitor.settled(thread)
            if not why:
                raise
            if not monitor.shut_down:
                raise EngineDeadError(f"rank {self.rank.rank} ends: {why}") from None
            self.leave()
            return
        self.leave()
        await thread.join("monitor.join")

    async def do(self, call: Any) -> bool:
        if call == GONE:
            raise EngineDeadError("the monitor has given up")
        return await super().do(call)

    def leave(self) -> None:
        """In order: its core does not take it for a death, and the own monitor ends."""
        for one in (self.core, self.rank.rank):
            self.rank.send(one, DEATHS, ("LEFT", self.rank.rank), "worker.left")
