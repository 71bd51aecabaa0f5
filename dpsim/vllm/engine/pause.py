"""Calls of a client to an engine besides inference: pause, resume, sleep, wake up, new weights (specification 2.6).

    PAUSE(mode)       abort: all requests end; wait: running requests continue; keep: all requests stop. The engine
                      answers when it is idle and all engines have agreed to pause; in 0.33 its device is idle, too
    RESUME            the engine answers after a reduction of all engines, before which no engine steps
    SLEEP(mode)       a pause, and then no forwards, not even dummies, until WAKE_UP, which resumes
    UPDATE_WEIGHTS    a collective of all engines outside of the loop, only while all are paused

A client sends a call to all engines and waits for all answers. If an engine cannot do a call, it answers with the
error, and continues.

Before 0.33, an engine answers a pause while its last forward may still run on the device. So an update of the weights
races with this forward (`Control024`).
"""

from __future__ import annotations

import numpy as np

from dpsim.contract.interface import Frozen, Rank
from dpsim.vllm.engine.answers import Answers
from dpsim.vllm.engine.forward import EngineForward
from dpsim.vllm.engine.scheduler import Scheduler
from dpsim.vllm.engine.waves import EngineWaves, PauseMode, PauseOnItsWay

PAUSED, RESUMED = "engine.paused", "engine.resumed"


class Control:
    """Handles the calls of an engine's clients. `asleep`: whether the engine runs no forwards."""

    def __init__(
        self, rank: Rank, waves: EngineWaves, scheduler: Scheduler, forward: EngineForward, answers: Answers
    ) -> None:
        self.rank = rank
        self.waves = waves
        self.scheduler = scheduler
        self.forward = forward
        self.answers = answers
        self.asleep = False
        self.when_idle: list[tuple[str, int]] = []

    async def take(self, what: str, client: int, arguments: list[Frozen]) -> None:
        """Process one call of a client, and send an answer or an error."""
        try:
            await self.do(what, client, arguments)
        except (PauseOnItsWay, NotImplementedError) as error:
            self.answers.refused(what, client, str(error))

    async def do(self, what: str, client: int, arguments: list[Frozen]) -> None:
        """Do a call. Raises PauseOnItsWay, and NotImplementedError for a call that this release does not have."""
        match what, arguments:
            case "PAUSE" | "SLEEP", [("abort" | "wait" | "keep") as mode]:
                self.pause(mode)
                self.when_idle.append((what, client))
            case "RESUME" | "WAKE_UP", []:
                await self.resume()
                self.asleep = False
                self.answers.answered(what, client)
            case "UPDATE_WEIGHTS", [int(version)]:
                await self.forward.update_weights(version)
                self.answers.answered(what, client)
            case _:
                raise NotImplementedError(f"rank {self.rank.rank} knows no {what} of {arguments!r}")

    def pause(self, mode: PauseMode) -> None:
        """Begin the first phase of a pause: the engine runs until all engines have a pause pending."""
        self.waves.pause(mode)
        if mode == "abort":
            self.answers.finished(self.scheduler.abort_all())

    async def idle(self) -> None:
        """Answer the clients that wait until this engine is idle."""
        while self.when_idle:
            what, client = self.when_idle.pop(0)
            await self.device_idle()
            self.asleep = self.asleep or what == "SLEEP"
            self.rank.probe(PAUSED)
            self.answers.answered(what, client)

    async def device_idle(self) -> None:
        """Wait for the last forward, which the host has launched but not awaited."""
        await self.forward.synchronize()

    async def resume(self) -> None:
        """Resume after a reduction of all engines, so that no engine steps before all have ended the pause
        (invariant I-EL-14).
        """
        if self.waves.resume():
            self.waves.resumed(await self.barrier(self.scheduler.has_unfinished(self.waves.pause_state)))
            self.rank.probe(RESUMED)

    async def barrier(self, work: bool) -> bool:
        """Whether any engine has work, by a reduction that also is a barrier of all engines."""
        group = self.rank.host("dp_engine")
        sent = np.array([work], np.int32)
        return bool((await group.all_reduce(sent, op="max", site="engine.resume"))[0])


class Control024(Control):
    """Release 0.24: the engine answers a pause when its host is idle. Its last forward may still run on the device."""

    async def device_idle(self) -> None:
        pass
