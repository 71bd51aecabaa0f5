"""How `dpsim explore` prints results, keeps them in folders, and ends, for one world and for sets of worlds."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import typer

from dpsim.cli.console import CANNOT_RUN, NOT_MET, note
from dpsim.cli.explore_again import TypedCommand

if TYPE_CHECKING:
    from dpsim.campaign.coverage import Coverage
    from dpsim.campaign.files import Options, Outcome
    from dpsim.explore import Failure


class Display(NamedTuple):
    """How to print the results. `more`: options of suggested commands. `covered`: the coverage, or None."""

    more: list[str]
    full: bool
    quiet: bool
    as_json: bool
    results: bool
    covered: Coverage | None
    again: TypedCommand

    def outcome(self, one: Outcome, unmet: str | None, goes_on: str = "") -> str:
        """Returns the block of an explored scenario with its expectation. `goes_on`: the command that goes on."""
        from dpsim.cli import explore_text as text

        expected = text.expectation_line(one.explored.subject.expected, unmet, one.explored.verdict)
        on, next_of = "keep_going" in self.again.options, self._next_of(one, self.full)
        return f"{text.as_text(one.explored, one.scenario, next_of, self.full, goes_on, on)}\n{expected}"

    def kept(self, outcome: Outcome, options: Options) -> list[str]:
        """Writes a folder of results for each failure of a scenario that is not as expected. Returns the folders."""
        if not self.results or outcome.explored.unmet is None:
            return []
        from dpsim.campaign.results import results_of_explored

        folder, next_of = options.folder / "results", self._next_of(outcome, full=True)
        return [*map(str, results_of_explored(outcome.scenario, outcome.explored, folder, next_of))]

    def _next_of(self, one: Outcome, full: bool) -> Callable[[Failure], tuple[str, ...]]:
        def next_of(failure: Failure) -> tuple[str, ...]:
            trace = one.traces.get(failure.fingerprint)
            again = ["dpsim", "replay", str(trace), *self.more, *["--full"] * (not full)]
            return () if trace is None else (shlex.join(again),)

        return next_of


def warn(outcome: Outcome) -> None:
    """Prints a warning for a trace that could not be written."""
    if outcome.unwritten is not None:
        note(f"dpsim: warning: no trace of the failure of {outcome.scenario.name} was written: {outcome.unwritten}")


def end(lost: bool, met: bool) -> NoReturn:
    """Ends the command with the exit code of the result."""
    raise typer.Exit(CANNOT_RUN if lost else 0 if met else NOT_MET)
