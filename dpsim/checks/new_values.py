"""New values: whether ranks received a value in a step that they received in no other step.

    step            0  1  2  3
    plan            1  1  0  1      received by all ranks
    rank 0 calls    a  a  a  a      the usual step says that rank 1 is wrong in step 2, but the plan may say
    rank 1 calls    a  a  -  a      that rank 0 is: so the other steps prove nothing

Steps are alike because their inputs are alike. So a value that is equal in all other steps, and different in this one,
is a reason to expect different calls. If the values of the other steps differ from each other, and their calls are
equal, such values do not matter.

The earlier steps count, or all others if these are too few: a mistake may change the values of later steps. Results of
collectives, messages, values of a store and transfers count. All members of a collective must have received
the same result here, and one other result in all other steps. Otherwise the mistake itself may have changed it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from dpsim.checks.finding import Part, fact
from dpsim.checks.run_index import RunIndex
from dpsim.contract.kinds import ADDED, FOR_ACTORS
from dpsim.contract.ops import (
    ADDRESS,
    COMMUNICATOR,
    COUNT,
    KIND,
    LEARNED_OUTCOME,
    OP,
    SEQ,
    SITE,
    STEP,
    STORE_HOW,
    TAKE_HOW,
    RawRecord,
)

_HEARD = ADDED | FOR_ACTORS | {"probe"}

Place: TypeAlias = tuple[str, int]
"""A receive: its site, and the number of receives of the step that the rank made there before."""

Source: TypeAlias = tuple[object, ...]
"""The communicator and the number of a collective; the rank and the place of any other receive."""


FEW = 2
"""The number of other steps that are needed to know that a value is usually the same."""


class _Received(NamedTuple):
    """A value that a rank received. `at` is the index of its record in the journal."""

    place: Place
    source: Source
    value: str
    at: int


class _Change(NamedTuple):
    """The site of a receive, the value of this step, and the usual value."""

    site: str
    now: str
    usual: str


def new_value(run_index: RunIndex, step: int, until: Mapping[int, int]) -> Part:
    """Returns why other steps prove nothing about a step: where ranks received a new value; otherwise empty.

    `until` has the index in the journal of ranks at which they differ. A value counts only if one of these ranks
    received it before its index, or if none of them received it.
    """
    received = {rank: _by_step(rank, journal) for rank, journal in enumerate(run_index.run.journals)}
    ranks: dict[Source, dict[int, _Change | None]] = {}
    early: dict[Source, list[bool]] = {}
    for rank, steps in received.items():
        for place, one in steps.get(step, {}).items():
            others = {when: other[place].value for when, other in steps.items() if when != step and place in other}
            usual = _usual([value for when, value in others.items() if when < step]) or _usual([*others.values()])
            change = None if usual in (None, one.value) else _Change(place[0], one.value, str(usual))
            ranks.setdefault(one.source, {})[rank] = change
            if rank in until:
                early.setdefault(one.source, []).append(one.at < until[rank])
    for source, changes in ranks.items():
        some = next(iter(changes.values()))
        same = some is not None and len({one and one[1:] for one in changes.values()}) == 1
        if some is not None and same and any(early.get(source, [True])):
            return fact("new_value", ranks=(*changes,), site=some.site, step=step)
    return ""


def _usual(values: list[str]) -> str | None:
    """Returns the value of several steps; None if the values differ, or if the steps are too few."""
    return values[0] if len(values) >= FEW and len({*values}) == 1 else None


def _by_step(rank: int, journal: list[RawRecord]) -> dict[int, dict[Place, _Received]]:
    """Returns the values that a rank received, by step and place.

    A rank may receive the message that begins a step before it sets `rank.step`. So a receive before the first op of a
    step belongs to this step.
    """
    found: dict[int, list[tuple[str, Source, str, int]]] = {}
    open_ops: dict[Any, RawRecord] = {}
    last: RawRecord | None = None
    fresh: list[tuple[str, Source, str, int]] = []
    for at, raw in enumerate(journal):
        kind = raw[KIND]
        if kind == "learned":
            op = open_ops.pop(raw[ADDRESS], None)
            value = repr(raw[LEARNED_OUTCOME])
            if op is not None and op[KIND] == "read" and last is not None:
                op = last
            if op is not None and op[KIND] == "collective":
                last = None
                found.setdefault(op[STEP], []).append((op[SITE], (op[COMMUNICATOR], op[SEQ]), value, at))
            elif op is not None and op[KIND] != "read" and raw[LEARNED_OUTCOME] is not None:
                fresh.append((op[SITE], (rank, at), value, at))
        elif _may_receive(raw):
            open_ops[raw[ADDRESS]] = raw
            last = raw if kind == "collective" else last
        if kind not in _HEARD and fresh:
            found.setdefault(raw[STEP], []).extend(fresh)
            fresh = []
    return {step: _placed(some) for step, some in found.items()}


def _placed(some: list[tuple[str, Source, str, int]]) -> dict[Place, _Received]:
    numbers, placed = Counter[str](), dict[Place, _Received]()
    for site, source, value, at in some:
        place = site, numbers[site]
        numbers[site] += 1
        placed[place] = _Received(place, source, value, at)
    return placed


def _may_receive(raw: RawRecord) -> bool:
    """Returns whether an op may return a value that other actors gave."""
    kind = raw[KIND]
    if kind == "collective":
        return bool(raw[COUNT])
    if kind == "take":
        return bool(raw[TAKE_HOW] != "poll")
    if kind == "store":
        return bool(raw[STORE_HOW] == "get")
    return bool(kind == "read" or (kind == "transfer" and raw[OP] != "send"))
