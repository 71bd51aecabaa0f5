"""The option `--against` of `dpsim explore`: runs each explored world on a backend, and prints what no schedule shows.

    dpsim explore my.yaml --against gloo 40

    REFUTED  gloo: run 3 of 40 shows what no schedule shows
    on gloo    rank 0: within[0] True, my.py:22
    schedules  within[0] False

An unseen outcome of a proven world ends the command with code 1. Of a bounded or sampled world it is printed, and the
exit code stays, because the search has not seen everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

from dpsim.cli.console import BAD_INPUT, CANNOT_RUN, Progress, fail, painted

if TYPE_CHECKING:
    from dpsim.campaign.against import AgainstBackend
    from dpsim.campaign.files import Outcome
    from dpsim.campaign.unseen import Against
    from dpsim.scenario import Scenario

OPTION = "--against"

ELSEWHERE = ("swarm", "all_up_to", "work", "resume", "cluster")
"""Options of searches that collect no outcomes, or of many worlds."""


class NumberAfterBackend(TyperCommand):
    """A command that also reads `--against gloo 40` as `--against gloo:40`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, joined(args))


def joined(words: Sequence[str]) -> list[str]:
    """Returns the words of a command with the number behind a backend as a part of the same word.

    >>> joined(["my.yaml", "--against", "gloo", "40", "--full"])
    ['my.yaml', '--against', 'gloo:40', '--full']
    """
    if OPTION not in words[:-2]:
        return [*words]
    at = list(words).index(OPTION)
    number = words[at + 2]
    return [*words[: at + 1], f"{words[at + 1]}:{number}", *words[at + 3 :]] if number.isdecimal() else [*words]


def wanted(text: str | None, chosen: Sequence[Scenario], typed: Mapping[str, Any]) -> AgainstBackend | None:
    """Returns the backend of `--against` and the number of runs, or None. Ends the command with code 2 for an option or
    a scenario that excludes it, and with code 3 if this machine lacks the backend.
    """
    if text is None:
        return None
    from dpsim.campaign.against import AgainstBackend

    for name in ELSEWHERE:
        if name in typed:
            option = f"--{name.replace('_', '-')}"
            fail(f"{OPTION}: not together with {option}, because the search collects outcomes only here", BAD_INPUT)
    backend = AgainstBackend.parsed(text)
    try:
        for scenario in chosen:
            backend.refuse(scenario)
    except ImportError as error:
        fail(f"the backend {backend.backend} cannot be loaded: {error}", CANNOT_RUN)
    return backend


def hold(outcomes: Sequence[Outcome], backend: AgainstBackend | None, seed: int, all_runs: bool, quiet: bool) -> None:
    """Runs each explored world on the backend; the results are in `Explored.against`."""
    if backend is None:
        return
    from dpsim.campaign.against import against
    from dpsim.runner import warm_backends

    with warm_backends():
        for one in outcomes:
            title = f"{one.scenario.name} on {backend.backend}"
            with Progress(title, unit="run", quiet=quiet) as progress:
                against(one.explored, backend, seed, all_runs, progress)


def lines(held: Against | None) -> list[str]:
    """Returns the lines about the runs; none without `--against`."""
    if held is None:
        return []
    [head, *rows] = held.described()
    return [painted(head, good=False), *rows] if held.unseen else [head]


def as_json(held: Against | None) -> dict[str, Any] | None:
    """Returns the runs as plain data, or None without `--against`."""
    if held is None:
        return None
    return {
        "backend": held.backend,
        "runs": held.runs,
        "outcomes": held.outcomes,
        "early": held.early,
        "refuted": held.refutes is not None,
        "why": held.why or None,
        "unseen": [
            {
                "run": one.run,
                "actor": one.actor,
                "learned": one.learned,
                "where": one.where or None,
                "seen": list(one.seen),
                "together": list(one.together),
            }
            for one in held.unseen
        ],
    }
