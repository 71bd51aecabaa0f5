"""What goes through a pipeline: batches, their rows, and who is admitted."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """A request's part of a batch. `computed`: tokens of it that count as computed before the step, as the scheduler
    knows it: an upper bound. `prefill`: tokens that it has to compute before it decodes; `limit`: all it may have.
    `position` is what only the oracle knows: the tokens that really are computed.
    """

    request: int
    computed: int
    scheduled: int
    prefill: int
    limit: int
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
    """A request that gets a slot, and the tokens that are known of it: its prompt, and after a preemption more."""

    request: int
    tokens: tuple[int, ...]


class Batch(NamedTuple):
    """What the engine tells every stage: requests whose slots are given back, requests that get one, rows to run."""

    number: int
    freed: tuple[int, ...]
    admitted: tuple[Admission, ...]
    rows: tuple[Row, ...]

    @property
    def num_tokens(self) -> int:
        return sum(row.scheduled for row in self.rows)
