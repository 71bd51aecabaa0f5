"""What a client asks of an engine beside requests: pause, resume, sleep, wake up, new weights (2.6).

    PAUSE(mode)       abort: all requests end; wait: those that run go on; keep: all stand. Answered when the engine is
                      idle, in a group only after all engines have agreed to pause; in 0.33 its device is idle, too
    RESUME            answered after a reduction of all engines, before which nobody steps (I-EL-14)
    SLEEP(mode)       a pause, and then no more forwards, dummies neither, until WAKE_UP, which resumes
    UPDATE_WEIGHTS    a collective of all engines that is none of the loop's: only for paused ones

What an engine cannot do, a RESUME while a pause is on its way or a call that it does not know, it answers with the
error, and goes on. A client asks all engines and waits for the answers of all.

Releases: before 0.33 nobody waits for the device, so who writes new weights does that beside the last forward
(`Control024`).

Source: specification chapter 2.6.
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
    """What one engine does for its clients. `asleep`: no forwards are run."""

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
        """One request of a client, who gets an answer or an error."""
        try:
            await self.do(what, client, arguments)
        except (PauseOnItsWay, NotImplementedError) as error:
            self.answers.refused(what, client, str(error))

    async def do(self, what: str, client: int, arguments: list[Frozen]) -> None:
        """Raises PauseOnItsWay, and NotImplementedError for what engines of this release do not do."""
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
        """The first phase."""
        self.waves.pause(mode)
        if mode == "abort":
            self.answers.finished(self.scheduler.abort_all())

    async def idle(self) -> None:
        """The engine has come to rest: whoever waits for that is answered."""
        while self.when_idle:
            what, client = self.when_idle.pop(0)
            await self.device_idle()
            self.asleep = self.asleep or what == "SLEEP"
            self.rank.probe(PAUSED)
            self.answers.answered(what, client)

    async def device_idle(self) -> None:
        """The last forward was launched, and nobody has waited for it."""
        await self.forward.synchronize()

    async def resume(self) -> None:
        """All engines meet, so that none steps before all have forgotten the pause."""
        if self.waves.resume():
            self.waves.resumed(await self.barrier(self.scheduler.has_unfinished(self.waves.pause_state)))
            self.rank.probe(RESUMED)

    async def barrier(self, work: bool) -> bool:
        """Whether any engine has work."""
        group = self.rank.host("dp_engine")
        told = np.array([work], np.int32)
        return bool((await group.all_reduce(told, op="max", site="engine.resume"))[0])


class Control024(Control):
    """0.24: a pause is answered when the host is idle; the last forward may still run."""

    async def device_idle(self) -> None:
        pass
