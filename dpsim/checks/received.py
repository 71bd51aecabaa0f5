"""Received: whether ranks differ exactly as the values differ that other actors sent to them.

    router          sends mode 2 to rank 0, and mode 1 to ranks 1, 2
    rank 0          receives 2 at hear    decides 2      no majority counts: rank 0 decides by what it received
    ranks 1, 2      receive 1 at hear     decide 1

If ranks differ by what they received, the mistake may be the sender's. So no rank is the culprit, and the finding names
the values and their senders. Values of a blocking get, of a store and of a receive count. The result of a poll
or of a get that timed out does not count, because it depends on time.

The values explain the difference if all ranks that depart received one value at a site, and the others another one. A
rank that did not receive there is left out. If the others received several values and still decide alike, the values
explain nothing. For example, each rank may receive its own requests.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from dpsim.checks.blame.witnesses import senders
from dpsim.checks.finding import Fact, Part, fact
from dpsim.checks.run_index import RunIndex
from dpsim.contract.ops import ADDRESS, KIND, LEARNED_OUTCOME, OP, SITE, STEP, STORE_HOW, TAKE_HOW, RawRecord
from dpsim.contract.words import short

Place: TypeAlias = tuple[str, int]
"""A receive: its site, and the number of receives of the step that the rank made there before."""


class _Received(NamedTuple):
    raw: RawRecord
    value: Hashable


def received_apart(run_index: RunIndex, until: Mapping[int, int], step: int, departed: Sequence[int]) -> Part:
    """Returns the receive that explains why the ranks `departed` differ from the others; otherwise empty.

    `until` has the position in the journal of each rank at which it differs. `step` is the step of this position.
    """
    values = {rank: _values(run_index.run.journals[rank][:at], step) for rank, at in until.items()}
    for place in values[departed[0]] if departed else ():
        others = [rank for rank in until if rank not in departed and place in values[rank]]
        mine = {values[rank][place].value if place in values[rank] else None for rank in departed}
        theirs = {values[rank][place].value for rank in others}
        if len(mine) == len(theirs) == 1 and mine.isdisjoint(theirs):
            odd, usual = (_received(run_index, some, values, place) for some in (departed, others))
            return fact("received_apart", site=place[0], odd=odd, usual=usual)
    return ""


def _values(journal: Sequence[RawRecord], step: int) -> dict[Place, _Received]:
    """Returns the values that a rank received from other actors in a step, and right before it.

    A rank may receive the message that begins a step before it sets `rank.step`. So a receive belongs to the next step
    if it follows the last collective or decision of the step before.
    """
    found, waits = dict[Place, _Received](), dict[object, RawRecord]()
    for raw in journal:
        if raw[STEP] != step and raw[KIND] in ("collective", "decision"):
            found, waits = {}, {}
        elif _receives(raw):
            waits[raw[ADDRESS]] = raw
        elif raw[KIND] == "learned" and raw[ADDRESS] in waits and raw[LEARNED_OUTCOME] is not None:
            number = sum(site == raw[SITE] for site, _ in found)
            found[raw[SITE], number] = _Received(waits.pop(raw[ADDRESS]), raw[LEARNED_OUTCOME])
    return found


def _receives(raw: RawRecord) -> bool:
    if raw[KIND] == "take":
        return bool(raw[TAKE_HOW] != "poll")
    if raw[KIND] == "store":
        return bool(raw[STORE_HOW] == "get")
    return bool(raw[KIND] == "transfer" and raw[OP] != "send")


def _received(
    run_index: RunIndex, ranks: Sequence[int], values: Mapping[int, Mapping[Place, _Received]], place: Place
) -> Fact:
    raw, value = values[ranks[0]][place]
    found = list(senders(run_index, ranks[0], raw, value)) if raw[KIND] != "transfer" else []
    by = list(dict.fromkeys((run_index.world.actor(one.rank), one.raw[SITE]) for one in found))
    sender = fact("sender", actor=by[0][0], site=by[0][1]) if len(by) == 1 else None
    return fact("received", ranks=(*ranks,), value=short(value, 40), sender=sender)
