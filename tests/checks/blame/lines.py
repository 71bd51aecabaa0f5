"""Handmade journals of a pipeline (a line) of two stages. In each step rank 0 computes and sends two tensors, and rank
1 receives them and computes.

    made = stages([4, 2, 9])                          # the elements of the tensors in steps 0, 1 and 2
    made = stages([4, 2, 9], left_out(1, "rest.send"))
    made.findings()
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from dpsim.checks.finding import Culprit, Finding
from dpsim.contract.ops import KIND, TRANSFER_PEER, RawRecord
from tests.checks.handmade import Hand, Made
from tests.records import changed as changed_record

Call: TypeAlias = dict[str, Any]
"""Arguments of a transfer, or of a launch."""

Fault: TypeAlias = Callable[[int, Call], list[Call]]
"""Returns the calls that a rank makes in place of a call in a step."""


def healthy(step: int, call: Call) -> list[Call]:
    return [call]


def left_out(step: int, site: str) -> Fault:
    return lambda when, call: [] if (when, call["site"]) == (step, site) else [call]


def twice(step: int, site: str) -> Fault:
    return lambda when, call: [call, call] if (when, call["site"]) == (step, site) else [call]


def changed(step: int, site: str, **fields: Any) -> Fault:
    return lambda when, call: [call | fields] if (when, call["site"]) == (step, site) else [call]


def lines(*pairs: Made) -> Made:
    """Joins several pipelines into one run: ranks 0 and 1, ranks 2 and 3, and so on."""
    made = Made(2 * len(pairs))
    for number, pair in enumerate(pairs):
        for hand in pair.hands:
            own = made[2 * number + hand.rank]
            own.journal = [_moved(one, 2 * number) for one in hand.journal]
    return made


def _moved(record: RawRecord, by: int) -> RawRecord:
    return changed_record(record, peer=record[TRANSFER_PEER] + by) if record[KIND] == "transfer" else record


def stages(
    counts: Sequence[int], fault: Fault = healthy, alone: bool = False, until: dict[int, int] | None = None
) -> Made:
    """Returns the journals of two stages. `alone`: the ranks make only transfers. `until`: maps a rank to the first
    step that it does not make.
    """
    made = Made(2)
    for step, count in enumerate(counts):
        for hand in made.hands:
            hand.step = step
            if step < (until or {}).get(hand.rank, len(counts)):
                for call in _calls(hand.rank, count, alone):
                    for one in fault(step, call):
                        _make(hand, one)
    return made


def _calls(rank: int, count: int, alone: bool) -> list[Call]:
    op, end = ("send", "send") if rank == 0 else ("recv", "receive")
    transfers: list[Call] = [
        {"op": op, "site": f"{name}.{end}", "count": count, "dtype": "int32"} for name in ("hidden", "rest")
    ]
    work: list[Call] = [] if alone else [{"site": site, "elements": count} for site in ("layers", "norm")]
    return work + transfers if rank == 0 else transfers + work


def _make(hand: Hand, call: Call) -> None:
    if "op" in call:
        fields = dict(call)
        hand.transfer(fields.pop("op"), 1 - hand.rank, "main", **fields)
    else:
        hand.launch(call["site"], "main", reads=[(0, 0, call["elements"])])


def primary(made: Made, *ends: Any) -> tuple[Finding, Culprit]:
    """Returns the first finding and its culprit. Without `ends`, both ranks are blocked."""
    found = made.findings(*(ends or ("blocked", "blocked")))[0]
    assert found.culprit is not None, found
    return found, found.culprit
