"""Sizes: how much work a night does.

SIZES["night"].worlds     # 1,000
"""

from __future__ import annotations

from typing import NamedTuple


class Size(NamedTuple):
    """The amount of work of a night: its worlds with random faults, and the schedules of each. `seconds`: for each
    scenario in each part. One in `visited` of the known bugs has searches of `museum_schedules`. `small`: the largest
    number of small worlds of a scenario; None for all.
    """

    worlds: int = 1_000
    schedules: int = 100
    seconds: float = 600.0
    visited: int = 1
    museum_schedules: int = 200
    small: int | None = None


SIZES = {
    "night": Size(),
    "hour": Size(worlds=200, schedules=50, seconds=40.0, visited=4),
    "minute": Size(worlds=24, schedules=5, seconds=30.0, visited=60, museum_schedules=20, small=16),
}
