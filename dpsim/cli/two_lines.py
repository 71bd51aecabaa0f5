"""The two lines that `--quiet` prints: the verdict, and the expectation.

    $ dpsim run skip_one --quiet
    VIOLATED  HANG:COLLECTIVE  HANG: a rank left out a collective in which its peers wait
    expected: violated, HANG:COLLECTIVE; met

A replay has no expectation, so its second line says whether the run is that of the trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsim.checks.classes import class_and_detail
from dpsim.cli.console import painted
from dpsim.contract.words import printable, with_services
from dpsim.diagnose.report import report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpsim.campaign.explored import Explored
    from dpsim.campaign.files import Outcome
    from dpsim.campaign.replay import Replayed
    from dpsim.campaign.whole import Whole
    from dpsim.runner import Result
    from dpsim.scenario.parameters import Scale


def of_run(result: Result) -> str:
    """Returns the lines of a judged run."""
    from dpsim.cli import run_text

    failed = bool(result.findings or result.run.lost)
    verdict = _first(report(result.run, result.findings)) if failed else run_text.verdict_line(result)
    return f"{painted(verdict, good=not failed)}\n{run_text.expectation_line(result)}"


def of_each(outcomes: Sequence[Outcome]) -> str:
    """Returns the lines of explored scenarios. If there are several, each pair of lines begins with the name."""
    several = len(outcomes) > 1
    return "\n".join(_titled(one.scenario.name if several else "", *_of_explored(one.explored)) for one in outcomes)


def _of_explored(explored: Explored) -> tuple[str, str]:
    from dpsim.cli import explore_text

    lost, world = explored.exploration.lost, explored.subject.world
    failed = explored.failure is not None and not lost
    good = not (failed or lost or explored.verdict == "refuted")
    verdict = _first(explored.report()) if failed else explore_text.verdict_line(explored)
    verdict_text = with_services(verdict, world.size, world.services)
    return painted(verdict_text, good), explore_text.expectation_line(
        explored.subject.expected, explored.unmet, explored.verdict
    )


def of_worlds(name: str, sizes: Scale, total: int, whole: Whole) -> str:
    """Returns the lines of a set of worlds. `name`: the scenario, or "" if the command explores only one."""
    from dpsim.cli import explore_text, explore_worlds_text

    failure = None if whole.first is None else whole.first.explored.failure
    verdict_text = explore_worlds_text.whole_verdict(sizes, total, whole) + (
        f": {class_and_detail(failure.problem.klass)[0]}" if failure else ""
    )
    good = whole.first is None and not whole.lost
    expected = explore_text.expectation_line(whole.expected, whole.unmet, whole.of_each)
    return _titled(name, painted(verdict_text, good), expected)


def of_replay(replayed: Replayed) -> str:
    """Returns the verdict, if the replay has findings, and the line that says whether it is the run of the trace."""
    failed = bool(replayed.findings or replayed.run.lost)
    verdict = [painted(_first(report(replayed.run, replayed.findings)), good=False)] * failed
    return "\n".join([*verdict, painted(printable(replayed.summary()), good=replayed.same)])


def _first(text: str) -> str:
    return text.partition("\n")[0]


def _titled(name: str, *lines: str) -> str:
    return "\n".join([*[f"scenario  {name}"] * bool(name), *lines])
