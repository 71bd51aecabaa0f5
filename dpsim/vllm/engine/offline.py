"""Engines in lockstep without a coordinator and without a loop: a program steps each of them (2.8).

Each rank runs `while has_unfinished_requests(): step()`, as a batch job with an external launcher does. The question
itself is the reduction: a MAX over who has work. So a rank without work goes on asking and stepping while any rank has
work, and its step is a dummy batch.

    >>> engine = OfflineEngine()
    >>> engine.contribution(unfinished=False)
    (0,)
    >>> engine.reduced((1,), unfinished=False)  # another rank has work
    True
    >>> engine.step(), engine.step()
    ('dummy', 'model')

There are no waves and no sync points: every step is one. And nothing here notices a rank that asks once more, or once
less, than its peers: all have to call both functions equally often.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from dpsim.vllm.engine.finish_sync import Numbers, Op


class OfflineEngine:
    """One rank's engine."""

    op: ClassVar[Op] = "max"

    def __init__(self) -> None:
        self.should_execute_dummy_batch = False

    def contribution(self, unfinished: bool) -> Numbers:
        """What the rank brings to the reduction of `has_unfinished_requests`, as int32."""
        return (int(unfinished),)

    def reduced(self, total: Numbers, unfinished: bool) -> bool:
        """What `has_unfinished_requests` says."""
        (anybody,) = total
        if anybody and not unfinished:
            self.should_execute_dummy_batch = True
        return bool(anybody)

    def step(self) -> Literal["dummy", "model"]:
        """What the next step runs. A dummy batch returns no outputs, and a request that came meanwhile waits for it."""
        dummy, self.should_execute_dummy_batch = self.should_execute_dummy_batch, False
        return "dummy" if dummy else "model"
