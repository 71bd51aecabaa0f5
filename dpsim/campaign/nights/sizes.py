"""How much a night does.

SIZES["night"].worlds     # 1,000
"""

from __future__ import annotations

from typing import NamedTuple


class Size(NamedTuple):
    """`worlds`: of the swarm, in all. `schedules`: that each world may have. `seconds`: that each scenario may take in
    each part, so on a busy machine it has fewer schedules. `visited`: of the museum, one variant in this number.
    `museum_schedules`: that each search there may run. `small`: the most small worlds of a scenario; None for all.
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
"""By the names that users type."""
