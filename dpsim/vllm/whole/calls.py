"""Calls of an engine to its workers, as messages: vLLM's executor and its queue of remote calls (specification 7.3).

All workers of an engine receive the same calls in the same order, and run them one by one:

    execute, step, batch             a batch, without an answer: the core asks for its result later
    sample, step, masks              sample the batch that was executed last, also without an answer
    take, step, number               wait for the result of the oldest batch; the output rank answers
    dummy, step                      a forward without tokens; the output rank answers without its device
    synchronize, step                wait for the device; all answer
    update_weights, step, version    new weights, by a collective of all engines; all answer
    stop, step                       the last one

Each call contains the engine's step, so that all ranks of all replicas have the same step number (invariant I-EL-1).
The output rank returns results to the core. Messages are plain tuples:

    >>> batch = Batch(3, freed=(0,), admitted=(Admission(1, (7, 8)),), rows=(Row(1, 0, 2, 2, 4, 0),))
    >>> plain(batch)
    (3, (0,), ((1, (7, 8), None),), ((1, 0, 2, 2, 4, 0),), (), 0)
    >>> batch_of(plain(batch)) == batch
    True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpsim.contract.interface import Frozen, Rank
from dpsim.vllm.engine.forward import DUMMY, REAL, RPC
from dpsim.vllm.pipeline.batches import Admission, Batch, Row
from dpsim.vllm.whole.batch_queue import BatchExecutor, Masks

ANSWERS = "answers"


def plain(batch: Batch) -> tuple[Frozen, ...]:
    admitted = tuple([(one.request, tuple(one.tokens), one.continues) for one in batch.admitted])
    rows = tuple([tuple(row) for row in batch.rows])
    return batch.number, tuple(batch.freed), admitted, rows, tuple(batch.preempted), batch.drafts


def batch_of(message: Any) -> Batch:
    number, freed, admitted, rows, preempted, drafts = message
    given = tuple([Admission(*one) for one in admitted])
    return Batch(number, freed, given, tuple([Row(*row) for row in rows]), preempted, drafts)


class Executor(BatchExecutor[Batch]):
    """Sends the calls of one engine. `others`: the ranks of its workers, stage by stage. `output`: the output rank."""

    def __init__(self, rank: Rank, others: Sequence[int], output: int) -> None:
        self.rank, self.others, self.output = rank, others, output  # its workers have devices, a core has none
        self.answers = rank.mailbox(ANSWERS)

    async def begin(self) -> None:
        """Does nothing, because the workers capture their graphs before they receive calls."""

    async def submit(self, batch: Batch) -> None:
        if batch.num_tokens:
            self.rank.probe(REAL)
        self.call("execute", plain(batch))

    def sample(self, batch: Batch, masks: Masks) -> None:
        self.call("sample", masks)

    async def result(self, batch: Batch) -> None:
        self.call("take", batch.number)
        await self.answered_by("take", [self.output])

    async def dummy(self) -> None:
        self.rank.probe(DUMMY)
        self.call("dummy")
        await self.answered_by("dummy", [self.output])

    async def synchronize(self) -> None:
        self.call("synchronize")
        await self.answered_by("synchronize", self.others)

    async def update_weights(self, version: int) -> None:
        self.call("update_weights", version)
        await self.answered_by("update_weights", self.others)

    async def end(self) -> None:
        """Does nothing, because the workers receive the call `stop`, and then check the results of all batches."""

    def call(self, what: str, *arguments: Frozen) -> None:
        """Send the same call to all workers."""
        for worker in self.others:
            self.rank.send(worker, RPC, (what, self.rank.step, *arguments), f"call.{what}")

    async def answered_by(self, what: str, by: Sequence[int]) -> None:
        """Wait for the answers of these workers. The core awaits all answers to a call, so no answer to another call
        can arrive.
        """
        missing: set[Frozen] = set(by)
        while missing:
            answer = await self.answer(what)
            match answer:
                case [str(called), int(worker)]:
                    assert called == what, f"the answer is of {called}, the call was {what}"
                    missing.discard(worker)
                case _:
                    raise TypeError(f"an engine knows no answer {answer!r}")

    async def answer(self, what: str) -> Frozen:
        """The next answer: the name of its call, and the worker."""
        return await self.answers.get(f"answer.{what}")
