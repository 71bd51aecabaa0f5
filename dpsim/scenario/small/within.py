"""Selects the faults, delays and messages of a scenario that a smaller world keeps: those of ranks that it has."""

from __future__ import annotations

from typing import Any

from dpsim.scenario.model import Scenario


def injected_within(base: Scenario, size: int) -> dict[str, list[Any]]:
    """The faults, delays and messages whose ranks are all below `size`, and all of services.

    If a smaller world lacks the service, the program refuses the scenario.
    """

    def there(*ranks: int | str) -> bool:
        return all(isinstance(rank, str) or rank < size for rank in ranks)

    return {
        "faults": [one for one in base.faults if there(one.rank)],
        "delays": [one for one in base.delays if there(one.rank)],
        "messages": [
            one for one in base.messages if there(one.to, *([one.after.rank] if one.after is not None else []))
        ],
    }
