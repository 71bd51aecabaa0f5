"""Checks the bounds of `dpsim explore`, for example a number of late deliveries, against its other options.

dpsim explore my.yaml --late-deliveries 2 --deaths 1 --budget 10min
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dpsim.cli.console import BAD_INPUT, fail

if TYPE_CHECKING:
    from dpsim.campaign.bounds import Bounds
    from dpsim.scenario import Scenario


def refuse_bounds(bounds: Bounds, strategy: str, of_a_set: bool, scenarios: Iterable[Scenario]) -> None:
    """Ends the command with code 2 if there is a bound, but the search is of a set of worlds or samples."""
    named = [f"--{key.replace('_', '-')}" for key, number in bounds._asdict().items() if number is not None]
    for scenario in scenarios:
        limits = bounds.of(scenario, type(bounds)())._asdict()
        named += [f"{scenario.name}: limits.{key}" for key, number in limits.items() if number is not None]
    if named and of_a_set:
        fail(f"{named[0]}: not together with --swarm or --all-up-to; explore one scenario", BAD_INPUT)
    if named and strategy not in ("portfolio", "dpor"):
        fail(f"{named[0]}: bounds a search of all schedules, and {strategy} samples; leave --strategy out", BAD_INPUT)
