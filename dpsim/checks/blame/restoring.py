"""Restoring: whether a change of a call leads back to what the actor does in its other steps.

    restores(run, Fault("skip", 0, At("dp.agree", 3)))      # False: rank 0 makes this call once in each other step

In a call of two actors, a run also holds if the innocent one makes the same mistake. Such a change is no repair. So if
the actor makes the same number of calls in all other steps, a change must lead to that number. If all other calls at
the site have the same argument, it must lead to that. Where others differ, or none exist, each change counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dpsim.contract.kinds import MEETS
from dpsim.contract.ops import COMMUNICATOR, KIND, ORDINAL, SEQ, SITE, STEP, THREAD, RawRecord, as_record
from dpsim.contract.world import Fault, Run


def restores(run: Run, fault: Fault) -> bool:
    """Whether the actor's calls are as usual after that change."""
    own = [raw for raw in run.journals[fault.rank] if raw[THREAD] == fault.at.thread]
    if fault.kind == "insert":
        return _usual_number(own, fault.change["site"], fault.change["step"], 1)
    changed = next(raw for raw in own if (raw[SITE], raw[ORDINAL]) == (fault.at.site, fault.at.ordinal))
    if fault.kind == "skip":
        return _usual_number(own, changed[SITE], changed[STEP], -1)
    others = [as_record(raw) for raw in _others(run, changed)]
    seen = {name: {getattr(other, name, None) for other in others} for name in fault.change}
    return all(seen[name] in (set(), {value}) or len(seen[name]) > 1 for name, value in fault.change.items())


def _usual_number(own: Iterable[RawRecord], site: str, step: int, more: int) -> bool:
    """Whether the actor makes as many calls at a site in each other step as in this one after the change."""
    numbers = Counter[int]()
    for raw in own:
        numbers[raw[STEP]] += raw[KIND] in MEETS and raw[SITE] == site
    changed = numbers.pop(step, 0) + more
    usual = {*numbers.values()}
    return usual in (set(), {0}, {changed}) or len(usual) > 1


def _others(run: Run, changed: RawRecord) -> list[RawRecord]:
    """Returns the calls of all actors at the site, without those that belong to the same call as this one."""
    same = changed[COMMUNICATOR], changed[SEQ]
    return [
        raw
        for journal in run.journals
        for raw in journal
        if raw[KIND] == changed[KIND] and raw[SITE] == changed[SITE] and (raw[COMMUNICATOR], raw[SEQ]) != same
    ]
