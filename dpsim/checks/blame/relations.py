"""Relations: predicts the element count of a call from other numbers in its step, as in all other steps.

The element count at one site varies with the data, so its usual value proves little. But the numbers of a step depend
on each other:

    step              1    2    3    4
    hidden.copy       6    2    9    4
    hidden.receive    6    2    9    5      as many as in hidden.copy in 3 of 3 other steps, so here 4

To predict the count of a call in one step, the module looks for two kinds of relation in the other steps. It tries
the second kind only if the first one gives no prediction.

1. In all other steps, the count has a constant ratio to another number of the step, and that number varies.
2. A number of the step determines the count. The prediction is the count of the other steps that have the same number.

The module does not use the sizes that the call itself contains, because they would only repeat its count.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from dpsim.checks.blame.steps import Did, RankStep, Steps
from dpsim.contract.ops import COUNT, Alloc, Collective, Launch, Read, Transfer
from dpsim.contract.words import counted

Key: TypeAlias = tuple[Any, ...]
"""The source of a number in a step. It names an op, the count of earlier ops of this name, and an argument
of the op.
"""

FEW = 2
"""The smallest number of other steps for a relation."""


class Should(NamedTuple):
    """The predicted number of elements of a call, and the reason in words."""

    elements: int
    why: str


class Relations:
    """The numbers of each step, computed once."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self._sizes: dict[RankStep, dict[Key, int]] = {}

    def of(self, call: Did, samples: Sequence[Did]) -> list[Should]:
        """Returns the predicted counts of a call. `samples` are the calls of the same name in other steps."""
        at = call.entry.rank, call.entry.step
        then = [
            (one.entry.raw[COUNT], self.sizes((one.entry.rank, one.entry.step)))
            for one in samples
            if one.number == call.number
        ]
        several = len({call.entry.rank, *(one.entry.rank for one in samples)}) > 1
        among = "other calls of all ranks" if several else "other steps"
        others = {key: here for key, here in self.sizes(at).items() if key[:2] != (call.name, call.number)}
        found: list[Should | None] = [
            _ratio(key, here, [(count, there.get(key)) for count, there in then], among) for key, here in others.items()
        ]
        if not any(found):
            found = [
                _same(key, here, [(count, there.get(key)) for count, there in then], among)
                for key, here in others.items()
            ]
        return [should for should in found if should is not None]

    def sizes(self, at: RankStep) -> dict[Key, int]:
        """Returns the element count of each call of a step, and of each memory range that a kernel reads or writes."""
        if at not in self._sizes:
            found: dict[Key, int] = {}
            for name, number, entry in self.steps.rows.get(at, ()):
                record = entry.record
                if isinstance(record, Collective | Transfer | Alloc | Read):
                    found[name, number, 0] = record.count
                elif isinstance(record, Launch):
                    refs = enumerate((*record.reads, *record.writes))
                    found |= {(name, number, place): ref[2] - ref[1] for place, ref in refs}
            self._sizes[at] = found
        return self._sizes[at]


def _ratio(key: Key, here: int, pairs: Sequence[tuple[int, int | None]], among: str) -> Should | None:
    """Returns the prediction by a ratio that is equal in all steps, or None. A number that never changes is no
    evidence.
    """
    both = [(count, number) for count, number in pairs if count and number]
    ratios = {Fraction(count, number) for count, number in both}
    if not here or len(both) < FEW or len(ratios) > 1 or {number for _, number in both} == {here}:
        return None
    ratio = min(ratios)
    many = "as many" if ratio == 1 else f"{ratio} times as many"
    should = ratio * here
    if should.denominator > 1:
        return None
    return Should(int(should), f"{many} as in {key[0][1]} in {len(both)} of {len(both)} {among}, so here {should}")


def _same(key: Key, here: Any, pairs: Sequence[tuple[int, Any]], among: str) -> Should | None:
    """Returns the count of the steps in which another value was as here, or None.

    For each value of that other number, the count must have been equal in all steps.
    """
    counts: dict[Any, set[int]] = {}
    both = [(count, number) for count, number in pairs if number is not None]
    for count, number in both:
        counts.setdefault(number, set()).add(count)
    alike = sum(number == here for _, number in both)
    if alike < FEW or any(len(some) > 1 for some in counts.values()):
        return None
    [count] = counts[here]
    where = f"where {key[0][1]} had the same size"
    return Should(count, f"{counted(count, 'element')} in {alike} of {alike} {among} {where}")
