"""Idle: lists the parts of a night that ran nothing, with the reason, because such a part is no success.

ran_nothing(("scenarios", "small"), rows)       # {"small": "no sizes: ..."}
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpsim.campaign.nights.rows import NightRow
from dpsim.contract.words import counted
from dpsim.scenario import Scenario

MOST = 100
"""A larger value of a parameter is not suggested as a size."""

ENDED = "no row: the night ended before it"

WITHOUT_ROWS = {
    "scenarios": "no scenario",
    "swarm": "no scenario that has to hold, or fewer worlds than scenarios",
    "small": "no scenario that has to hold",
    "museum": "no variant",
    "tests": "no test: --tests FILE names a report of pytest",
}


def row_of_none(part: str) -> NightRow:
    """Returns the row of a finished part that has no other row."""
    return NightRow(part=part, name=part, left_out=WITHOUT_ROWS[part])


def without_sizes(scenario: Scenario) -> str:
    """Returns why a scenario has no small worlds, with sizes that the user could give."""
    if scenario.protocol.params is None:
        return "no sizes: the protocol has no parameters"
    own = [(name, value) for name, value in scenario.protocol.params if type(value) is int and 0 < value <= MOST]
    sizes = ",".join(f"{name}={value}" for name, value in own[:2]) or "NAME=N"
    return f"no sizes: the parameters have none; give --all-up-to {sizes}"


def ran_nothing(parts: Sequence[str], rows: Iterable[NightRow]) -> dict[str, str]:
    """Returns, for each part that left everything out or has no row, the reason."""
    own: dict[str, list[NightRow]] = {part: [] for part in parts}
    for row in rows:
        own.setdefault(row.part, []).append(row)
    return {part: _why(some) for part, some in own.items() if all(_nothing(row) for row in some)}


def _nothing(row: NightRow) -> bool:
    return bool(row.left_out) and not (row.worlds or row.failures or row.lost)


def _why(rows: Sequence[NightRow]) -> str:
    reasons = [*dict.fromkeys(row.left_out for row in rows)]
    if not reasons:
        return ENDED
    return reasons[0] + (f" (and {counted(len(reasons) - 1, 'more reason')})" if len(reasons) > 1 else "")
