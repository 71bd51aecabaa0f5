"""What goes through a pipeline, from the engine's scheduler to the result of a step.

    Batch        the engine to every stage: whose slot is free, who gets one (`Admission`), what runs (`Row`)
    InputBatch   a stage to its kernels: the batch's rows as slots and spans of tokens
    StepResult   a stage to the engine: what the step's inputs were and, on the last stage, what was sampled

All of it is data. Every stage receives equal batches, so each stage can compute alone what all have to decide alike.
Examples are whether a row samples, how many drafts it has, and how many tokens are computed at most.

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
    """A request's part of a batch.

    `computed`: tokens that the scheduler counts as computed before the step, an upper bound. `prefill`: tokens that the
    request computes before it decodes. `limit`: all tokens that it may have, or None for a batch whose lengths no
    stage knows (source page 002). `position`: tokens that are really computed. Only the oracle knows it.
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
        """Whether the row samples a token: it is not a chunk of a prompt whose rest follows."""
        return self.computed + self.scheduled >= self.prefill

    @property
    def drafts(self) -> int:
        return 0 if self.prefilling else self.scheduled - 1


class Admission(NamedTuple):
    """A request that gets a slot, and its known tokens: its prompt, and after a preemption also its output so far.

    `continues`: the request of the same session that held the slot. The stage frees it first (specification 6.2).
    """

    request: int
    tokens: tuple[int, ...]
    continues: int | None = None


class Batch(NamedTuple):
    """What every stage does next: it frees the slots of some requests, gives slots to others, and runs rows.

    `preempted`: the requests of `freed` that lose their slots and start again later. `drafts`: the most drafts that a
    row of the batch has in its next decode. If it is 0, the last stage drafts nothing.
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
        """Where the tokens of each row lie among those of the step: one row after the other."""
        ends = accumulate(row.scheduled for row in self.rows)
        return tuple(
            Span(end - row.scheduled, row.scheduled, row.prefilling, row.samples)
            for row, end in zip(self.rows, ends, strict=True)
        )


class InputBatch(NamedTuple):
    """A batch as a stage runs it: the slots of its rows, on the host and on the device, and where their tokens lie.

    A worker also keeps it between two calls: one executes the batch, the other samples it. The second call brings
    `masks`: for each row, by place, the tokens that a grammar permits. `drafts`: how many drafts the drafter proposes
    for each row after the batch, or 0 if the step skips them.
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
    """What a step leaves for the engine, which takes its result. `delivered`: by row, the op of the last tokens."""

    step: int
    batch: Batch
    inputs: Buffer | None
    tokens: Buffer | None
    counts: Buffer | None
    delivered: tuple[str | None, ...]
    done: Event
