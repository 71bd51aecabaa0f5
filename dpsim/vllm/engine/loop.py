"""The loop of one engine in a group that steps in lockstep: vLLM's `DPEngineCoreProc.run_busy_loop`.

One iteration (specification 2.3):

    take_messages   without work: answer clients that wait until the engine is idle, then wait; read all messages
    step            schedule, execute, process aborts, update the scheduler. Before and behind it, publish the
                    counts of requests, if front ends balance by them
    dummy           if no tokens ran but the group runs: a forward without tokens, so that peers do not hang
    sync            at a sync point: reduce which engines have work, and which have a pause pending
    end             continue the wave or end it, and inform the coordinator

An engine is idle from the end of a wave until a message starts the next one. It then makes no collective (invariant
I-EL-4). During a wave, an engine without requests makes forwards without tokens. `rank.step` counts iterations with a
forward, which are equally many on all engines (I-EL-1). So a step number means the same step on all engines.

Sources: specification 2.2 to 2.7.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from dpsim.contract.interface import Frozen, Rank
from dpsim.vllm.engine.answers import Answers
from dpsim.vllm.engine.forward import EngineForward
from dpsim.vllm.engine.layout import COORDINATOR, Layout
from dpsim.vllm.engine.pause import Control
from dpsim.vllm.engine.request_counts import RequestCounts, Untold
from dpsim.vllm.engine.scheduler import RequestId, Scheduler
from dpsim.vllm.engine.waves import EngineWaves, Out

START, COMPLETE = "engine.start_wave", "engine.wave_complete"


class EngineLoop:
    """The loop of one engine. An iteration calls the methods in the order of this file.

    `waves`: the rules of the release for waves. `control`: handles pause, resume and sleep. `counts`: publishes the
    counts of requests. `idle`: whether the engine may wait without end when it has no work.
    """

    idle: ClassVar[bool] = True

    def __init__(
        self,
        rank: Rank,
        layout: Layout,
        waves: EngineWaves,
        scheduler: Scheduler,
        forward: EngineForward,
        control: type[Control] = Control,
        counts: type[RequestCounts] = Untold,
    ) -> None:
        self.rank = rank
        self.layout = layout
        self.index = layout.engine(rank.rank)
        self.waves = waves
        self.scheduler = scheduler
        self.forward = forward
        self.group = rank.host("dp_engine")
        self.input = rank.mailbox("input")
        self.aborts = rank.mailbox("abort")
        self.answers = Answers(rank, layout)
        self.control = control(rank, waves, scheduler, forward, self.answers)
        self.counts = counts(rank, self.index, waves, scheduler)
        self.stops = 0
        self.steps = 0

    async def run(self) -> None:
        """Iterate until the engine has received STOP and is idle."""
        self.rank.step = 0
        while await self.iterate():
            pass
        await self.forward.synchronize()
        self.forward.call("stop")

    async def iterate(self) -> bool:
        """Do one iteration. Returns whether there is another."""
        was_running = self.waves.engines_running
        if not await self.take_messages():
            return False
        self.rank.step = self.steps
        self.counts.before_step()
        executed = await self.step()
        self.counts.after_step()
        local = self.unfinished()
        if not executed and not local and not self.waves.engines_running:
            return True
        await self.meet(executed, local)
        self.steps += 1
        self.end(was_running)
        return True

    # ---- messages

    async def take_messages(self) -> bool:
        """Wait for work, and process all messages so far. Returns False if the engine has to end."""
        while not self.has_work():
            await self.control.idle()
            if self.stops == self.layout.stops:
                return False
            await self.take(await self.input.get("engine.idle", idle=self.idle))
        while (message := await self.input.poll("engine.input")) is not None:
            await self.take(message)
        return True

    def has_work(self) -> bool:
        return self.waves.engines_running or self.unfinished()

    def unfinished(self) -> bool:
        """Whether the scheduler has work that may run. During a pause, some or all requests may not run."""
        return self.scheduler.has_unfinished(self.waves.pause_state)

    async def take(self, message: Frozen) -> None:
        """Process one message of the input queue. Raises TypeError for an unknown one."""
        what, *words = message if isinstance(message, tuple) else (message,)
        match what, words:
            case "ADD", [str(request), int(steps), int(wave), int(client)]:
                self.add(request, steps, wave, client)
            case "ABORT", [tuple(requests)]:
                self.abort(requests)  # type: ignore[arg-type]
            case "START_DP_WAVE", [int(wave), exclude]:
                assert exclude is None or isinstance(exclude, int)
                self.start_dp_wave(wave, exclude)
            case "STOP", []:
                self.stops += 1
            case "ECHO", [int(client)]:
                self.echo(client)
            case str(), [int(client), *arguments]:
                await self.control.take(what, client, arguments)
            case _:
                raise TypeError(f"engine {self.index} knows no message {message!r}")

    def add(self, request: RequestId, steps: int, wave: int, client: int) -> None:
        """Add a request to the scheduler. `wave`: the wave of its front end."""
        for out in self.waves.add(wave):
            self.tell(out)
        self.scheduler.add(request, steps, client)

    def abort(self, requests: tuple[RequestId, ...]) -> None:
        self.scheduler.abort(requests)

    def start_dp_wave(self, wave: int, exclude: int | None) -> None:
        """Join a wave because of the coordinator's wake. Raises AssertionError if the wake moves an engine after all
        engines have agreed to pause (invariant I-EL-8).
        """
        before = self.waves.engines_running, self.waves.ignore_start_dp_wave
        self.waves.start_dp_wave(wave, exclude)
        moved = self.waves.engines_running and not before[0]
        assert not (moved and before[1]), f"engine {self.index} was woken after all had agreed to pause (I-EL-8)"

    def echo(self, client: int) -> None:
        """Answer the client when the engine and the coordinator have processed all earlier messages of this client."""
        if self.layout.coordinated:
            self.rank.send(self.rank.service(COORDINATOR), "events", ("ECHO", client), "engine.echo")
        else:
            self.answers.answered("ECHO", client)

    # ---- the step

    async def step(self) -> bool:
        """Run a step. Returns whether tokens ran. The engine processes aborts before the scheduler gets the result
        (invariant I-EL-12).
        """
        batch = self.scheduler.schedule(self.waves.pause_state)
        executed = await self.forward.execute(len(batch))
        if batch:
            await self.take_aborts()
            self.answers.finished(self.scheduler.update(batch))
        return executed

    async def take_aborts(self) -> None:
        """Process the aborts that arrived while the model ran. A second copy of each is in the input queue, and has no
        effect.
        """
        while (requests := await self.aborts.poll("engine.abort")) is not None:
            assert isinstance(requests, tuple)
            self.abort(requests)  # type: ignore[arg-type]

    async def meet(self, executed: bool, local: bool) -> None:
        """Meet the other engines: run a dummy forward if no tokens ran, then the sync. `local`: whether this engine has
        work.
        """
        if not executed and self.makes_dummy():
            await self.forward.dummy()
        await self.sync(local)

    def makes_dummy(self) -> bool:
        """Whether an engine that ran no tokens runs a dummy forward."""
        return self.layout.size > 1 and not self.control.asleep

    # ---- the finish sync

    async def sync(self, local: bool) -> None:
        """Run the finish sync if this step is a sync point. `local`: whether this engine has work. A single engine
        syncs in each step.
        """
        if self.waves.at_sync_point() or self.layout.size == 1:
            self.waves.synced(await self.reduce(self.waves.contribution(local)))
            state = self.waves.current_wave, self.waves.engines_running, self.waves.step_counter
            self.rank.decide("wave", state, "dp_engine")
        else:
            self.waves.no_sync()

    async def reduce(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        sent = np.array(numbers, np.int32)
        total = await self.group.all_reduce(sent, op=self.waves.op, site="engine.finish_sync")
        return tuple(map(int, total))

    def end(self, was_running: bool) -> None:
        """End the wave, or continue it. AssertionError: it ends while this engine has work (invariant I-EL-6)."""
        running = self.waves.engines_running
        assert running or not self.unfinished(), f"engine {self.index} has work left as the wave ends (I-EL-6)"
        for out in self.waves.end_iteration(was_running):
            self.tell(out)

    def tell(self, out: Out) -> None:
        """Inform the coordinator. A single engine has no coordinator and sends nothing, because its front ends need no
        report.
        """
        self.rank.probe(START if out.kind == "start_wave" else COMPLETE)
        if out.to == "coordinator":
            event = out.kind, self.index, out.wave
            self.rank.send(self.rank.service(COORDINATOR), "events", event, f"engine.{out.kind}")
