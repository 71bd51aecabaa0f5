"""The data of a pipeline: the batch that the scheduler sends to every stage, and the result of a step.

    Batch        from the engine to every stage: the slots to free, the requests that get one (`Admission`), the rows
    InputBatch   from a stage to its kernels: the rows of the batch as slots and spans of tokens
    StepResult   from a stage to the engine: the inputs of the step and, on the last stage, the sampled tokens

Every stage receives an equal batch. So each stage computes by itself what all stages have to decide alike.

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
    """The part of a batch that belongs to one request.

    `computed`: tokens that the scheduler counts as computed before the step, an upper bound. `scheduled`: its tokens in
    this step. `prefill`: tokens that it computes before it decodes. `limit`: all tokens that it may have; None for a
    batch in which no stage has this number (source page 002). `position`: tokens that are really computed. Only the
    oracle, which computes the expected tokens, reads the position.
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
        """Whether the row samples a token. A chunk of a prompt samples none if more of the prompt follows."""
        return self.computed + self.scheduled >= self.prefill

    @property
    def drafts(self) -> int:
        return 0 if self.prefilling else self.scheduled - 1


class Admission(NamedTuple):
    """A request that gets a slot, with its known tokens: prompt and, after a preemption, output.

    `continues`: the former request of its session, whose slot the stage frees first (specification 6.2).
    """

    request: int
    tokens: tuple[int, ...]
    continues: int | None = None


class Batch(NamedTuple):
    """`freed`: requests that lose their slots; of these, `preempted` start again later.

    `drafts`: the most that a row has in its next decode. If it is 0, the last stage proposes none.
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
        """The place of each row's tokens among the tokens of the step: one row after the other."""
        ends = accumulate(row.scheduled for row in self.rows)
        return tuple(
            Span(end - row.scheduled, row.scheduled, row.prefilling, row.samples)
            for row, end in zip(self.rows, ends, strict=True)
        )


class InputBatch(NamedTuple):
    """A batch with its slots, on host and device, kept between `execute` and `sample`.

    `masks`: a row's kinds of permitted tokens, by place, for sampling. `drafts`: those of each row after it; 0:
    skipped.
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
        """The tokens of each row."""
        return tuple(row.scheduled for row in self.batch.rows)


class StepResult(NamedTuple):
    """Read later by the engine. `delivered`: for each row, the op that last wrote tokens to its slot."""

    step: int
    batch: Batch
    inputs: Buffer | None
    tokens: Buffer | None
    counts: Buffer | None
    delivered: tuple[str | None, ...]
    done: Event
