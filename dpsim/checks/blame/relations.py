"""Relations: the numbers that the number of elements of a call depends on in all other steps, and so its value in this
one.

A count depends on data, so the usual count of a site proves little. But the numbers of one step depend on each other:

    step              1    2    3    4
    hidden.copy       6    2    9    4
    hidden.receive    6    2    9    5      as many as in hidden.copy in 3 of 3 other steps, so here 4

Two relations count. The first is a ratio that never changes, while the other number does. Without one, the second is
that the count was equal whenever another number, or a value that the host learned, was equal. One other step suffices
if the numbers of several sites changed together since. The memory that a call itself names is no relation, because it
belongs to the same call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from dpsim.checks.blame.steps import Did, RankStep, Steps
from dpsim.checks.run_index import Entry
from dpsim.contract.ops import COUNT, KIND, LEARNED_OUTCOME, SITE, STEP, Alloc, Collective, Launch, Read, Transfer

Key: TypeAlias = tuple[Any, ...]
"""The source of a number of a step: a name, the count of earlier calls of this name, and the part of the call."""

FEW = 2
"""The smallest number of other steps for a relation."""


SITES = 3
"""The number of sites whose numbers have to change together if there is one other step."""


class Should(NamedTuple):
    """The expected number of elements of a call, and the reason in words."""

    elements: int
    why: str


class Relations:
    """The numbers of each step, computed once."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self._sizes: dict[RankStep, dict[Key, int]] = {}
        self._learned: dict[int, dict[int, dict[Key, Any]]] = {}

    def of(self, call: Did, samples: Sequence[Did]) -> list[Should]:
        """The expected count of a call by other calls at this site, `samples`: by ratios, or else by equal values."""
        at = call.entry.rank, call.entry.step
        then = [
            (one.entry.raw[COUNT], self.sizes((one.entry.rank, one.entry.step)) | self.learned(one.entry))
            for one in samples
            if one.number == call.number
        ]
        others = {key: here for key, here in self.sizes(at).items() if key[:2] != (call.name, call.number)}
        found: list[Should | None] = [
            _ratio(key, here, [(count, there.get(key)) for count, there in then]) for key, here in others.items()
        ]
        if not any(found):
            found = _together(others, then)
        if not any(found):
            features = others | self.learned(call.entry)
            found = [
                _same(key, here, [(count, there.get(key)) for count, there in then]) for key, here in features.items()
            ]
        return [should for should in found if should is not None]

    def as_ever(self, call: Did, samples: Sequence[Did]) -> bool:
        """Whether a call and the numbers of several sites all equal those in the one other step. This is no evidence
        against another call, because a number that has not changed yet may change. But it is as good as a count that
        changed with all others.
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
        """The number of elements of each call of a step, and of each piece of memory that a kernel reads or writes."""
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
        """The values that the host of an entry learned in its step."""
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


def _ratio(key: Key, here: int, pairs: Sequence[tuple[int, int | None]]) -> Should | None:
    """A ratio of a count to another number, equal in all steps. A number that never changes is no evidence."""
    both = [(count, number) for count, number in pairs if count and number]
    ratios = {Fraction(count, number) for count, number in both}
    if not here or len(both) < FEW or len(ratios) > 1 or {number for _, number in both} == {here}:
        return None
    ratio = min(ratios)
    many = "as many" if ratio == 1 else f"{ratio} times as many"
    should = ratio * here
    if should.denominator > 1:
        return None
    return Should(int(should), f"{many} as in {key[0][1]} in {len(both)} of {len(both)} other steps, so here {should}")


def _together(here: dict[Key, int], then: Sequence[tuple[int, dict[Key, Any]]]) -> list[Should | None]:
    """For one other step: the numbers that equal the count there, if all are equal here too, with a new value. They
    have to belong to several sites.
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


def _same(key: Key, here: Any, pairs: Sequence[tuple[int, Any]]) -> Should | None:
    """The count in the steps in which another value was the same as here, if it was always equal, for each value."""
    counts: dict[Any, set[int]] = {}
    both = [(count, number) for count, number in pairs if number is not None]
    for count, number in both:
        counts.setdefault(number, set()).add(count)
    alike = sum(number == here for _, number in both)
    if alike < FEW or any(len(some) > 1 for some in counts.values()):
        return None
    [count] = counts[here]
    return Should(count, f"{count} in {alike} of {alike} other steps in which {key[0][1]} was as here")
