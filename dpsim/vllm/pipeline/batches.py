"""What goes through a pipeline, from the engine's scheduler to the result of a step.

    Batch        the engine to every stage: whose slot is free, who gets one (`Admission`), what runs (`Row`)
    InputBatch   a stage to its kernels: the batch's rows as slots and spans of tokens
    StepResult   a stage to the engine: what the step's inputs were and, on the last stage, what was sampled

All of it is data. Every stage gets equal batches, so what two of them have to do alike they compute from the batch:
whether a row samples, how many drafts it has, how many tokens are computed at most.

    >>> row = Row(request=0, computed=4, scheduled=3, prefill=4, limit=9, position=4)
    >>> row.prefilling, row.samples, row.drafts  # a decode: the last sampled token, and two drafts
    (False, True, 2)
"""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

from dpsim.contract.interface import Buffer, Event
from dpsim.vllm.model.kernels import Span


class Row(NamedTuple):
    """A request's part of a batch. `computed`: tokens of it that count as computed before the step, as the scheduler
    knows it: an upper bound. `prefill`: tokens that it has to compute before it decodes; `limit`: all it may have.
    It is None for a batch of which no length is known (source page 002).
    `position` is what only the oracle knows: the tokens that really are computed.
    """

    request: int
    computed: int
    scheduled: int
    prefill: int
    limit: int | None
    position: int

    @property
    def prefilling(self) -> bool:
        return self.computed < self.prefill

    @property
    def samples(self) -> bool:
        """Whether a token comes of it: it is no chunk of a prompt with more to come."""
        return self.computed + self.scheduled >= self.prefill

    @property
    def drafts(self) -> int:
        return 0 if self.prefilling else self.scheduled - 1


class Admission(NamedTuple):
    """A request that gets a slot, and the tokens that are known of it: its prompt, and after a preemption more.

    `continues`: the one of its session that held a slot until now, which is given back first (specification 6.2).
    """

    request: int
    tokens: tuple[int, ...]
    continues: int | None = None


class Batch(NamedTuple):
    """What every stage does next: requests whose slots are given back, requests that get one, rows to run.

    `preempted`: those of `freed` that had to give their slot back, and begin anew later. `drafts`: the most that a row
    of the batch has in its next decode, so that the last stage drafts nothing where it is 0.
    """

    number: int
    freed: tuple[int, ...]
    admitted: tuple[Admission, ...]
    rows: tuple[Row, ...]
    preempted: tuple[int, ...] = ()
    drafts: int = 0

    @property
    def num_tokens(self) -> int:
        return sum(row.scheduled for row in self.rows)

    def spans(self) -> tuple[Span, ...]:
        """Where the rows' tokens lie among those of the step: one row after the other."""
        ends = accumulate(row.scheduled for row in self.rows)
        return tuple(
            Span(end - row.scheduled, row.scheduled, row.prefilling, row.samples)
            for row, end in zip(self.rows, ends, strict=True)
        )


class InputBatch(NamedTuple):
    """A batch as a stage runs it: the rows' slots, on the host and on the device, and where their tokens lie.

    It is also what a worker keeps between the call that executes a batch and the one that samples it, which brings
    `masks`: of each row by place what a grammar permits. `drafts`: how many the drafter proposes for each row after the
    batch; 0 where the step skips them.
    """

    batch: Batch
    slots: tuple[int, ...]
    mapping: Buffer
    spans: tuple[Span, ...]
    inputs: Buffer
    masks: tuple[tuple[int, ...], ...] = ()
    drafts: int = 0

    @property
    def lengths(self) -> tuple[int, ...]:
        """Tokens of each row."""
        return tuple(row.scheduled for row in self.batch.rows)


class StepResult(NamedTuple):
    """What a step leaves for the one who takes its result. `delivered`: the ops that last brought tokens, by row."""

    step: int
    batch: Batch
    inputs: Buffer | None
    tokens: Buffer | None
    counts: Buffer | None
    delivered: tuple[str | None, ...]
    done: Event
