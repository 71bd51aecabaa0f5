"""Prints coverage as text. What no schedule reached comes first.

    never reached by 1 world:
    modes     wake: large
    branches  wake: rank 3 frontend.add before rank 0 engine.input
              and 17 more
    reached   probes 5 of 5, modes 3 of 4, branches 30 of 48, rows 2 of 2

A program names its probes, modes and rows of tables. A branch is an order of two sites that race
(`dpsim.campaign.coverage`). The text fits on a screen, and `--json` prints all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dpsim.cli.console import columns, say
from dpsim.contract.words import counted

if TYPE_CHECKING:
    from dpsim.campaign.coverage import Coverage

MOST = 4

_ONE = {"branches": "branch"}


def as_text(coverage: Coverage, remark: Callable[[str, str], str] = lambda kind, name: "") -> str:
    """Returns the text of `coverage`. Names for which `remark` returns words come first among the unreached."""
    rows: list[tuple[str, str]] = []
    for kind in coverage.counts:
        remarked = [(name, remark(kind, name)) for name in coverage.never(kind)]
        never = sorted(remarked, key=lambda one: not one[1])
        lines = ["".join(one) for one in never[:MOST]]
        lines += (
            [f"and {counted(len(never) - MOST, f'more {_ONE.get(kind, kind[:-1])}', f'more {kind}')}"]
            if len(never) > MOST
            else []
        )
        rows += [("" if number else kind, line) for number, line in enumerate(lines)]
    of = ", ".join(f"{kind} {coverage.reached(kind):,} of {len(names):,}" for kind, names in coverage.counts.items())
    title = f"never reached by {counted(coverage.worlds, 'world')}" + (":" if rows else ": nothing")
    return "\n".join([title, *columns([*rows, ("reached", of)])])


def say_covered(covered: Coverage | None, stopped: str = "") -> None:
    """Prints the coverage, if the user gave `--coverage`. `stopped`: a line that says where the search ended early."""
    if covered is not None:
        say(f"\n{stopped}\n{as_text(covered)}" if stopped else f"\n{as_text(covered)}")


def covered_json(covered: Coverage | None) -> dict[str, Any]:
    """Returns the key `coverage` for `--json`, or nothing if the user did not give `--coverage`."""
    return {} if covered is None else {"coverage": covered.as_json()}
