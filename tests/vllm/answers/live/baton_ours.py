"""Runs dpsim's baton with a drawn case: one simulated rank, whose threads run in a drawn order where the flags allow
several.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from inspect import isawaitable
from typing import Any, cast

from dpsim.campaign.subject import Subject
from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.world import World
from dpsim.explore.strategies.walks import RandomWalk
from dpsim.vllm.capture.wrapper import ForwardContext
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.graphs.dispatcher import Descriptor
from dpsim.vllm.overlap.barrier import ReadyBarrier
from dpsim.vllm.overlap.baton import UBatchContext, ring
from dpsim.vllm.overlap.hooks import Dbo
from dpsim.vllm.overlap.state import ForwardState, OverlapContext
from tests.vllm.answers.live.baton_cases import CALLS, Case, Drawn, Log, Noted


class NotedStream:
    """Replaces a stream: records numbered events, and logs each wait for one."""

    def __init__(self, name: str, log: Log) -> None:
        self.name, self.log = name, log

    def record(self) -> int:
        return self.log.event(self.name)

    def wait(self, number: int) -> None:
        self.log.note("wait", self.name, number)


class CaseProgram(Program[Case]):
    """Runs the microbatches of a case in threads of one rank."""

    threaded = True
    ordered_by_flags = True

    def __init__(self, context: type[UBatchContext], begin: Callable[[], Log]) -> None:
        self.context, self.begin = context, begin

    async def run(self, rank: Rank, prepared: Case) -> None:
        log = self.begin()
        state, barrier, number = ForwardState(), ReadyBarrier(rank), len(prepared)
        compute, comm = (cast(Any, NotedStream(name, log)) for name in ("compute", "comm"))
        state.begin(number)
        barrier.begin(number)
        told = ForwardContext(RuntimeMode.NONE, Descriptor(1), compute, 1, (1,))
        forwards = [OverlapContext(told, cast(Any, ()), one) for one in range(number)]
        contexts = [self.context(one, rank, state, barrier, forwards[one], comm) for one in range(number)]
        ring(contexts)
        threads = [rank.start(f"u{one.id}", self.ubatch(log, one, prepared[one.id])) for one in contexts]
        await barrier.main()
        contexts[0].wait_event.set("baton.first")
        for thread in threads:
            await thread.join("join")

    def ubatch(
        self, log: Log, context: UBatchContext, words: tuple[str, ...]
    ) -> Callable[[Rank], Coroutine[Any, Any, None]]:
        async def inside(dbo: Dbo) -> None:
            try:
                await context.enter()
                self.note(log, context, dbo, "enter")
                for word in words:
                    await self.do(log, context, dbo, word)
                    self.note(log, context, dbo, word)
            except Exception:
                raise
            except BaseException:  # the simulator closes a deadlocked thread
                log.closed = True
                raise
            finally:
                context.exit()

        async def run(rank: Rank) -> None:
            error: Exception | None = None
            try:
                await inside(Dbo(rank, context.state))
            except Exception as raised:
                error = raised
            log.end(context.id, error)

        return run

    def note(self, log: Log, context: UBatchContext, dbo: Dbo, word: str) -> None:
        forward = context.state.forward
        installed = None if forward is None else forward.first_token
        log.note(context.id, word, cast(Any, dbo.stream).name, installed, dbo.current_ubatch_id)

    async def do(self, log: Log, context: UBatchContext, dbo: Dbo, word: str) -> None:
        if word in CALLS:
            done = getattr(dbo, {"yield": "yield_"}.get(word, CALLS[word]))()
            if isawaitable(done):
                await done
        elif word == "raise":
            raise Drawn
        elif word == "previous":
            dbo.get_previous_event(lambda stream: cast(Any, stream).record())
        else:
            dbo.register_recv_hook(log.hook(word, context.id, dbo.switch_to_comm))


def ours(case: Case, seed: int, context: type[UBatchContext] = UBatchContext) -> Noted:
    logs: list[Log] = []

    def begin() -> Log:
        """Returns a new log for each run, because the test suite repeats some runs."""
        logs.append(Log())
        return logs[-1]

    program = CaseProgram(context, begin)
    subject = Subject(World(1, ()), program, case)
    chosen = RandomWalk(seed=seed)
    chosen.begin()
    subject.run(chosen)
    return logs[-1].noted(len(case))
