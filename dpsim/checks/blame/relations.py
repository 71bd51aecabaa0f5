"""Relations: predicts the element count of a call from other numbers in its step, as in all other steps.

The element count at one site varies with the data, so its usual value proves little. But the numbers of a step depend
on each other:

    step              1    2    3    4
    hidden.copy       6    2    9    4
    hidden.receive    6    2    9    5      as many as in hidden.copy in 3 of 3 other steps, so here 4

To predict the count of a call in one step, the module looks for three kinds of relation in the other steps. It tries
the kinds in this order, and the first kind that gives a prediction ends the search.

1. In all other steps, the count has a constant ratio to another number of the step, and that number varies.
2. Only one other step has this call, and in that step numbers at several sites equal the count of the call. If all of
   these numbers now have one new value, the call should have this value as its count.
3. A number of the step, or a value that the host received, determines the count. The prediction is the count of the
   other steps that have the same number or value.

The module does not use the sizes that the call itself contains, because they would only repeat its count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from dpsim.checks.blame.steps import Did, RankStep, Steps
from dpsim.checks.run_index import Entry
from dpsim.contract.ops import COUNT, KIND, LEARNED_OUTCOME, SITE, STEP, Alloc, Collective, Launch, Read, Transfer
from dpsim.contract.words import counted

Key: TypeAlias = tuple[Any, ...]
"""The source of a number in a step. It names an op, the count of earlier ops of this name, and an argument
of the op.
"""

FEW = 2
"""The smallest number of other steps for a relation."""


SITES = 3
"""The smallest number of sites whose numbers have to change together if there is only one other step."""


class Should(NamedTuple):
    """The predicted number of elements of a call, and the reason in words."""

    elements: int
    why: str


class Relations:
    """The numbers of each step, computed once."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self._sizes: dict[RankStep, dict[Key, int]] = {}
        self._learned: dict[int, dict[int, dict[Key, Any]]] = {}

    def of(self, call: Did, samples: Sequence[Did]) -> list[Should]:
        """Returns the predicted counts of a call. `samples` are the calls of the same name in other steps."""
        at = call.entry.rank, call.entry.step
        then = [
            (one.entry.raw[COUNT], self.sizes((one.entry.rank, one.entry.step)) | self.learned(one.entry))
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
            found = _together(others, then)
        if not any(found):
            features = others | self.learned(call.entry)
            found = [
                _same(key, here, [(count, there.get(key)) for count, there in then], among)
                for key, here in features.items()
            ]
        return [should for should in found if should is not None]

    def as_usual(self, call: Did, samples: Sequence[Did]) -> bool:
        """Returns whether the call and the numbers at several sites all equal those in the only other step.

        This does not accuse the peer's call, because a number that has not changed so far may change now. But it
        defends this call as well as a count that changed together with the others.
        """
        at = call.entry.rank, call.entry.step
        then = [one for one in samples if one.number == call.number]
        if len(then) != 1 or then[0].entry.raw[COUNT] != call.entry.raw[COUNT]:
            return False
        there = self.sizes((then[0].entry.rank, then[0].entry.step))
        others = {key: here for key, here in self.sizes(at).items() if key[:2] != (call.name, call.number)}
        alike = {key[0][1] for key, here in others.items() if here == call.entry.raw[COUNT] == there.get(key)}
        return len(alike) >= SITES

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

    def learned(self, entry: Entry) -> dict[Key, Any]:
        """Returns the values that the host received in the step of an entry."""
        if entry.rank not in self._learned:
            by_step: dict[int, dict[Key, Any]] = {}
            numbers: Counter[tuple[int, str]] = Counter()
            for raw in self.steps.run_index.run.journals[entry.rank]:
                if raw[KIND] == "learned":
                    step, site = raw[STEP], raw[SITE]
                    by_step.setdefault(step, {})[("learned", site), numbers[step, site]] = repr(raw[LEARNED_OUTCOME])
                    numbers[step, site] += 1
            self._learned[entry.rank] = by_step
        return self._learned[entry.rank].get(entry.step, {})


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


def _together(here: dict[Key, int], then: Sequence[tuple[int, dict[Key, Any]]]) -> list[Should | None]:
    """Returns predictions from a single other step. In that step some numbers equalled the count, and in this step they
    all have one new value.

    This value is the prediction. The numbers have to belong to several sites.
    """
    if len(then) != 1:
        return []
    [(count, there)] = then
    equal = {key: number for key, number in here.items() if there.get(key) == count}
    if len({key[0][1] for key in equal}) < SITES or len(set(equal.values())) > 1 or count in equal.values():
        return []
    return [
        Should(number, f"as many as in {key[0][1]} in the other step, so here {number}")
        for key, number in equal.items()
    ]


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
    what = "gave the same result" if key[0][0] == "learned" else "had the same size"
    return Should(count, f"{counted(count, 'element')} in {alike} of {alike} {among} where {key[0][1]} {what}")
