"""Runs dpsim's handler of sampled tokens with the steps of a drawn case, on a rank that logs its calls."""

from __future__ import annotations

from typing import Any, cast

from dpsim.vllm.pipeline.sampled_tokens import SampledTokens
from tests.vllm.answers.live.handler_cases import Case, Log, Memory, Noted, Step
from tests.vllm.answers.live.handler_engine import notes


class NotedStream:
    """Stands in for a stream of dpsim, and logs its waits, events and allocations."""

    def __init__(self, log: Log, name: str) -> None:
        self.log, self.name = log, name

    def wait_stream(self, other: NotedStream) -> None:
        self.log.calls.append(("wait_stream", self.name, other.name))

    def wait(self, event: int) -> None:
        self.log.calls.append(("wait", self.name, event))

    def record(self) -> int:
        return self.log.event(self.name)

    def alloc(self, shape: tuple[int, ...], dtype: str, site: str) -> Memory:
        self.log.memory["alloc", shape, dtype, self.name] += 1
        return Memory(self.log, shape, dtype)

    def launch(self, *args: Any, **named: Any) -> None:
        """Logs nothing: vLLM has no separate launch here, because `torch.stack` allocates and fills the counts in one
        call.
        """


class NotedGroup:
    """Stands in for a device communicator of dpsim, and logs its broadcasts."""

    def __init__(self, log: Log, name: str, size: int) -> None:
        self.log, self.name, self.size, self.ranks = log, name, size, tuple(range(size))

    def broadcast(self, buffer: Memory, root: int, stream: NotedStream, site: str) -> None:
        self.log.calls.append(("broadcast", buffer.shape, buffer.dtype, root, stream.name, self.name))


class NotedRank:
    """Stands in for a rank of dpsim: gives out streams and communicators that log their calls."""

    def __init__(self, log: Log, case: Case) -> None:
        self.log, self.case, self.rank, self.step = log, case, case.rank, 0

    def stream(self, name: str) -> NotedStream:
        return NotedStream(self.log, name)

    def device(self, name: str) -> NotedGroup:
        return NotedGroup(self.log, name, self.case.stages)

    def probe(self, name: str) -> None:
        """Logs nothing, because vLLM has no probes."""


class OurHandler:
    """Offers the calls of `EngineHandler`, around dpsim's `SampledTokens`."""

    def __init__(self, case: Case, tokens: type[SampledTokens]) -> None:
        self.case, self.log = case, Log()
        self.rank = NotedRank(self.log, case)
        self.tokens = tokens(cast(Any, self.rank), case.slots, case.drafts)

    def consume(self) -> object:
        got = self.tokens.consume()
        return got and (got.step, got.mapping, got.drafts and got.drafts.shape)

    def freed(self, slot: int) -> None:
        self.tokens.freed(slot)

    def receive(self, number: int, step: Step) -> object:
        self.rank.step = number
        mapping = cast(Any, Memory(self.log, (len(step.rows),), "int64", step.slots))
        return self.tokens.receive(step.rows, step.slots, mapping, step.drafts)

    def send(self, number: int, step: Step) -> None:
        rows = len(step.rows)
        tokens = Memory(self.log, (rows, step.width), step.dtype)
        counts = [Memory(self.log, (rows,), "int32") for _ in range(2)]
        self.tokens.broadcast(step.rows, *cast(Any, (tokens, *counts)))
        self.tokens.broadcast_drafts(cast(Any, Memory(self.log, (rows, step.drafts), "int64")))

    def run(self) -> list[Noted]:
        return notes(self)
