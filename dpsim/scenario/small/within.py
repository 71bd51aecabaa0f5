"""What of a scenario stays in a smaller world: the faults, delays and messages of ranks that it has.

A model of parameters makes small worlds (`dpsim.scenario.small.worlds`), and so does a package that adds sections to
scenarios (`dpsim.scenario.parameters`).
"""

from __future__ import annotations

from typing import Any

from dpsim.scenario.model import Scenario


def injected_within(base: Scenario, size: int) -> dict[str, list[Any]]:
    """The faults, delays and messages of a scenario whose ranks are all below `size`. Services stay: a program with
    fewer of them refuses the scenario by their names.
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
