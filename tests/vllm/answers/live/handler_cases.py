"""Draws steps of a pipeline stage, and defines stand-ins that log what a handler of sampled tokens does to its device.

    Case(stages=3, rank=0, slots=4, drafts=2, steps=(Step(...), ...))

vLLM's handler (`handler_engine`) and dpsim's (`handler_ours`) take the same steps, and must return equal `Noted`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from dpsim.vllm.pipeline.batches import Row


class Step(NamedTuple):
    """One step of a stage.

    `freed`: the slots that the scheduler frees first. `slots`: the slot of each row. `drafts`: how many tokens the
    drafter proposes for each row, or 0. `dtype`, `width`: of the token tensor that the last stage samples.
    """

    freed: tuple[int, ...]
    rows: tuple[Row, ...]
    slots: tuple[int, ...]
    drafts: int
    dtype: str
    width: int


class Case(NamedTuple):
    """One drawn case. `rank`: the stage that the handler belongs to. The last stage sends, the others receive."""

    stages: int
    rank: int
    slots: int
    drafts: int
    steps: tuple[Step, ...]

    @property
    def is_last(self) -> bool:
        return self.rank == self.stages - 1


class Noted(NamedTuple):
    """What one call of a handler did: its device calls in order, its allocations and kept tensors in any order, and its
    result.
    """

    calls: list[tuple[object, ...]]
    memory: Counter[tuple[object, ...]]
    result: object


Call = Callable[[], object]


class Log:
    """Collects the calls and the memory of one handler."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.memory: Counter[tuple[object, ...]] = Counter()
        self.events = 0

    def noted(self, call: Call) -> Noted:
        """Makes a call and returns what it did. If the call raises AssertionError, that is its whole result."""
        self.calls, self.memory = [], Counter()
        try:
            result = call()
        except AssertionError:
            return Noted([], Counter(), "AssertionError")
        return Noted(self.calls, self.memory, result)

    def event(self, stream: str) -> int:
        self.events += 1
        self.calls.append(("record", stream, self.events))
        return self.events


class Memory:
    """Stands in for a tensor of vLLM and for a buffer of dpsim: a shape and a dtype."""

    def __init__(self, log: Log, shape: tuple[int, ...], dtype: str, values: tuple[int, ...] = ()) -> None:
        self.log, self.shape, self.dtype, self.values = log, shape, dtype, values

    def record_stream(self, stream: Any) -> None:
        self.log.memory["keep", self.shape, self.dtype, stream.name] += 1

    def contiguous(self) -> Memory:
        return self

    def unbind(self, dim: int) -> list[Memory]:
        return [Memory(self.log, self.shape[1:], self.dtype) for _ in range(self.shape[0])]

    def free(self) -> None:
        """Does nothing: vLLM's tensors have no `free`, because Python counts their references."""


def draw(random: Random, limited: bool = False) -> Case:
    """Draws 4 to 29 steps, each of which frees slots and runs chunks, last chunks and decodes.

    `limited`: the rows have known lengths in each batch.
    """
    stages, slots, drafts = random.choice((2, 2, 3, 4)), random.randrange(1, 6), random.randrange(4)
    rank = random.choice((random.randrange(stages - 1), stages - 1, 0))
    steps = [draw_step(random, slots, drafts, limited) for _ in range(random.randrange(4, 30))]
    return Case(stages, rank, slots, drafts, tuple(steps))


def draw_step(random: Random, slots: int, drafts: int, limited: bool) -> Step:
    used = tuple(random.sample(range(slots), random.randrange(slots + 1)))
    freed = tuple(slot for slot in range(slots) if random.random() < 0.2)
    known = limited or random.random() < 0.7
    rows = tuple(draw_row(random, drafts, known) for _ in used)
    width = 1 + drafts if any(row.drafts for row in rows) else 1
    wrong = random.random()  # in 2 % of the steps the sender's dtype or width is not the one that the receivers expect
    dtype = "int32" if wrong < 0.01 else "int64"
    return Step(freed, rows, used, random.choice((0, drafts)), dtype, width + (0.01 < wrong < 0.02))


def draw_row(random: Random, drafts: int, known: bool) -> Row:
    prefill = random.randrange(1, 9)
    limit = prefill + random.randrange(1, 6) if known else None
    if random.random() < 0.5:
        computed = random.randrange(prefill)
        return Row(0, computed, random.randrange(1, prefill - computed + 1), prefill, limit, computed)
    computed = prefill + random.randrange(6)
    return Row(0, computed, 1 + random.choice((0, random.randrange(drafts + 1))), prefill, limit, computed)
