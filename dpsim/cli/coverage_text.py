"""Coverage as text, what was never reached first.

    never reached by 1 world:
    modes     wake: large
    branches  wake: rank 3 frontend.add before rank 0 engine.input
              and 17 more
    reached   probes 5 of 5, modes 3 of 4, branches 30 of 48, rows 2 of 2

The text is at most a screen, and `--json` has the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dpsim.cli.console import columns, say
from dpsim.contract.words import counted

if TYPE_CHECKING:
    from dpsim.campaign.coverage import Coverage

MOST = 4
"""Names of a kind."""

_ONE = {"branches": "branch"}


def as_text(coverage: Coverage, remark: Callable[[str, str], str] = lambda kind, name: "") -> str:
    """`remark`: the words behind a name of a kind that was never reached. Names with a remark come first."""
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
    """Print it, if the user asked for it. `stopped`: where the search ended early, in words that come first."""
    if covered is not None:
        say(f"\n{stopped}\n{as_text(covered)}" if stopped else f"\n{as_text(covered)}")


def covered_json(covered: Coverage | None) -> dict[str, Any]:
    """The key of `--json`, if the user asked for it."""
    return {} if covered is None else {"coverage": covered.as_json()}
