"""Shapes: of two paired calls with different arguments, names the one that is unlike the other calls at its site.

A site is the name of a call in the source. The calls at one site seldom change their type, op and root. Their number of
elements varies, but it usually follows from other numbers in the same step (`relations`). So the pass predicts the
arguments of each side from the other steps of its rank. If the prediction contradicts one side, this side is odd:

    step 3   rank 0   hidden.send int64[4]        as many as in `layers` in 8 of 8 other steps, so here 4
             rank 1   hidden.receive int64[5]     as many as in hidden.copy in 8 of 8 other steps, so here 4
                                                  ->   MISMATCH:TRANSFER:COUNT, culprit rank 1

If there is no prediction for one side, and the other side agrees with its prediction, the side without one is odd.

The pass names no rank in these cases:

* The predictions both confirm and contradict a side.
* The roots differ, and all other steps had one result before the call, unlike this step. The root may follow from it.
* Both calls pair up with other sites in other steps. Then an earlier call is missing, and arguments prove nothing.
* Another check already named a culprit. For the element count of a transfer, the pass may correct that culprit.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from dpsim.checks.blame.meetings import Partners, meetings
from dpsim.checks.blame.relations import Relations
from dpsim.checks.blame.steps import Did, Name, Steps, name_of
from dpsim.checks.finding import Finding, matches
from dpsim.checks.new_values import new_value
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.kinds import VALUE
from dpsim.contract.ops import CALL, COLLECTIVE_ROOT, COMMUNICATOR, COUNT, DTYPE, KIND, OP, SITE, STEP, Collective
from dpsim.contract.words import ranks_text

REDUCE = CALL.start + Collective._fields[CALL].index("reduce")

FIELDS = {"count": COUNT, "dtype": DTYPE, "op": OP, "root": COLLECTIVE_ROOT, "reduce": REDUCE}
"""Maps the last part of a mismatch's class to the index of the argument in a raw record."""

SHOWN = 2
"""The largest number of predictions that the evidence lists for one call."""


class Evidence(NamedTuple):
    """The predictions that confirm a call, and those that contradict it, as parts of a line."""

    pro: list[str]
    con: list[str]


def name_the_odd_call(run_index: RunIndex, findings: list[Finding]) -> list[Finding]:
    """Returns the findings. A mismatch without a culprit gets the call that is unlike the other calls at its site."""
    if not any(_open(one) for one in findings):
        return findings
    shapes = Shapes(run_index)
    return [shapes.decided(one) if _open(one) else one for one in findings]


def _open(finding: Finding) -> bool:
    """Returns whether a finding has no culprit, or is about the element count of a transfer.

    For these counts, a prediction from the same step is better evidence than the comparison of sender and receiver.
    """
    field = finding.klass.rpartition(":")[2].lower()
    open_to = finding.culprit is None or finding.klass == "MISMATCH:TRANSFER:COUNT"
    return open_to and matches(finding.klass, "MISMATCH") and field in FIELDS


class Shapes:
    """The pairs of different calls in a run (`differ`), and all other calls by name (`calls`)."""

    def __init__(self, run_index: RunIndex) -> None:
        self.run_index = run_index
        self.steps = Steps(run_index)
        self.relations = Relations(self.steps)
        self.partners = Partners(run_index)
        self.calls: dict[Name, list[Did]] = {}
        self.differ = [calls for calls in meetings(run_index) if len({_shape(entry) for entry in calls}) > 1]
        apart = {(entry.rank, entry.at) for calls in self.differ for entry in calls}
        for row in self.steps.rows.values():
            for did in row:
                if (did.entry.rank, did.entry.at) not in apart:
                    self.calls.setdefault(did.name, []).append(did)

    def decided(self, finding: Finding) -> Finding:
        """Returns the finding, with a culprit if one of the paired calls is odd."""
        field = finding.klass.rpartition(":")[2].lower()
        for calls in self.differ:
            here = {self.run_index.position(entry) for entry in calls}
            values = {entry.raw[FIELDS[field]] for entry in calls}
            if finding.position in here and len({entry.step for entry in calls}) == 1 and len(values) > 1:
                odd = self._odd(calls, field)
                if odd is not None:
                    new = new_value(self.run_index, calls[0].step, {entry.rank: entry.at for entry in calls})
                    return replace(finding, culprit=None, why=new) if new else self._with(finding, calls, *odd)
        return finding

    def _with(self, finding: Finding, calls: Sequence[Entry], odd: Entry, ground: list[str]) -> Finding:
        message = finding.message
        if matches(finding.klass, "MISMATCH:COLLECTIVE"):
            good = [entry for entry in calls if _shape(entry) != _shape(odd)]
            message = (
                f"rank {odd.rank} called {odd.record.describe()} in step {odd.step} "
                f"where {ranks_text(entry.rank for entry in good)} called {good[0].record.describe()}"
            )
        return replace(finding, message=message, culprit=self.run_index.culprit(odd), ground=tuple(ground), why="")

    def _odd(self, calls: Sequence[Entry], field: str) -> tuple[Entry, list[str]] | None:
        if self.partners.strange(calls):
            return None
        weighed = [(entry, self._evidence(entry, field, calls)) for entry in calls]
        against = [entry for entry, found in weighed if found.con]
        if len(against) == 1:
            [(odd, found)] = [one for one in weighed if one[1].con]
            return None if found.pro else (odd, _reasons(odd, found.con))
        unknown = [entry for entry, found in weighed if not found.pro]
        if against or len(unknown) != 1 or not self.partners.known(calls):
            return None
        return unknown[0], [line for entry, found in weighed if found.pro for line in _reasons(entry, found.pro)]

    def _evidence(self, entry: Entry, field: str, calls: Sequence[Entry]) -> Evidence:
        found = Evidence([], [])
        at = FIELDS[field]
        theirs = {other.raw[at] for other in calls} - {entry.raw[at]}

        def vote(value: Any, why: str) -> None:
            if value == entry.raw[at]:
                found.pro.append(why)
            elif value in theirs:
                found.con.append(why)

        own, every = self._alike(entry)
        if field == "count":
            for should in self.relations.of(self._did(entry), self._samples(entry)):
                vote(should.elements, should.why)
        if field == "root":
            own = every = self._with_other_results(entry, self._of_group(entry))
        if not found.pro and not found.con:
            some = own if len(own) >= _least(field) else every
            values = {did.entry.raw[at] for did in some}
            if len(values) == 1 and len(some) >= _least(field):
                value = min(values)
                vote(value, f"{field} {value} in {len(some)} of {len(some)} {_others_text(entry, field, some)}")
        return found

    def _did(self, entry: Entry) -> Did:
        return next(did for did in self.steps.rows[entry.rank, entry.step] if did.entry.at == entry.at)

    def _samples(self, entry: Entry) -> list[Did]:
        own, every = self._alike(entry)
        return own if len({did.entry.raw[COUNT] for did in own}) > 1 else every

    def _alike(self, entry: Entry) -> tuple[list[Did], list[Did]]:
        every = self.calls.get(name_of(entry.raw), [])
        return [did for did in every if did.entry.rank == entry.rank], every

    def _of_group(self, entry: Entry) -> list[Did]:
        return [
            did
            for some in self.calls.values()
            for did in some
            if did.entry.rank == entry.rank
            and did.name[0] == "collective"
            and did.entry.raw[COMMUNICATOR] == entry.raw[COMMUNICATOR]
            and did.entry.raw[COLLECTIVE_ROOT] is not None
        ]

    def _with_other_results(self, entry: Entry, others: list[Did]) -> list[Did]:
        """Returns the other calls, if a root that is equal in all of them proves something; otherwise none.

        A root may follow from results and decisions before the call. So one of the calls has the results of `entry`, or
        two of them have different results.
        """
        results = {self._results(did.entry) for did in others}
        return others if len(results) > 1 or self._results(entry) in results else []

    def _results(self, entry: Entry) -> Hashable:
        journal = self.run_index.run.journals[entry.rank][: entry.at]
        here = [raw for raw in journal if raw[STEP] == entry.step and raw[KIND] in VALUE]
        return tuple((raw[SITE], repr(raw[VALUE[raw[KIND]]])) for raw in here)


def _least(field: str) -> int:
    """Returns how many other calls have to agree on a value. A count depends on data, so it needs two."""
    return 2 if field == "count" else 1


def _others_text(entry: Entry, field: str, some: Sequence[Did]) -> str:
    """Returns the compared calls in words. For a root they are all calls of the rank that have one, at any site."""
    if field == "root":
        return f"other calls with a root on {entry.raw[COMMUNICATOR]}"
    return "other calls" if {did.entry.rank for did in some} == {entry.rank} else "other calls of all ranks"


def _shape(entry: Entry) -> tuple[Any, ...]:
    """Returns the arguments that have to be equal on all sides. The sizes of an all-to-all's parts are not
    among them.
    """
    raw = entry.raw
    return (raw[COUNT], raw[DTYPE]) if name_of(raw)[0] in ("send", "recv") else raw[OP : REDUCE + 1]


def _reasons(entry: Entry, why: Sequence[str]) -> list[str]:
    site, more = entry.record.site, len(why) - SHOWN
    lines = [f"{site} of rank {entry.rank}: {one}" for one in why[:SHOWN]]
    return lines + ([f"{more} more comparisons of this kind"] if more > 0 else [])
