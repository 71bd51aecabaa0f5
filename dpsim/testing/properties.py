"""Does a scenario hold, whatever the schedule? One call for a test, with Hypothesis or without.

    from dpsim.testing import holds

    @given(scenarios(max_faults=0))
    def test_ranks_agree(scenario):
        holds(scenario)

Hypothesis draws the scenario, and the schedules are explored inside. So the property is a function of its scenario:
nothing is flaky, and a failing scenario shrinks to the smallest world that shows a failure, as its schedules never have
to be shrunk. A seed or a schedule that is drawn beside the scenario would change under every step of shrinking.

A failure is an AssertionError. Its text is the report, and ends in the command that shows it again; the scenario that
this command names has been saved. While Hypothesis shrinks, nothing is saved but the smallest example of all.

What was seen is told to Hypothesis: the verdict, every pair of sites that raced and every probe that was reached, as
events (`pytest --hypothesis-show-statistics`, and coverage for fuzzers that read events), and the number of classes of
schedules as a target, so that drawing goes towards worlds in which more can happen.

    >>> from dpsim.scenario import scenario_from
    >>> request = {"prompt_tokens": 5, "output_tokens": 2}
    >>> found = holds(scenario_from({"name": "one", "workload": {"requests": [request]}}))
    >>> found.verdict, "; ".join(found.assumes)
    ('proven', 'no rank dies; unlimited residency; unlimited launch queue; no allocation waits')

Prior art: Hypothesis' `event` and `target`; "Swarm testing", Groce and others, 2012, for drawing worlds instead of
inputs alone.
"""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpsim.campaign.explored import Explored
    from dpsim.campaign.subject import Subject
    from dpsim.scenario import Scenario

FOLDER = ".dpsim"
"""Where failing scenarios are saved, seen from the working folder."""


def holds(
    tested: Scenario | Subject,
    *,
    schedules: int = 300,
    strategy: str = "portfolio",
    save: str | PathLike[str] = FOLDER,
) -> Explored:
    """Explore up to so many schedules and return what is known; its `verdict` is "proven", "bounded" or
    "sampled", or "vacuous" where no rank decided or issued anything: then nothing was there to hold.

    Raises AssertionError if a schedule breaks something, or if a planted fault happened in none: then it is not known
    whether the scenario holds. Not so for delays: drawn ones often lie where a small world does not come to.

    The scenario of a failure is saved in the folder `save`, which is made
    if need be, as NAME-FINGERPRINT.yaml; a `Subject` is not, since it has no scenario. Raises ValueError for an unknown
    strategy, `dpsim.world.Lost` if the machine took away what a run needs, and ScenarioError for a workload that cannot
    be read (`holds(Subject.of(scenario, folder))` says where its file is).
    """
    from dpsim.campaign.explored import explore_subject
    from dpsim.campaign.subject import Subject
    from dpsim.checks.expected import HELD
    from dpsim.scenario import Scenario
    from dpsim.world import Lost

    scenario = tested if isinstance(tested, Scenario) else None
    subject = tested if isinstance(tested, Subject) else Subject.of(tested)
    explored = explore_subject(subject, strategy, schedules=schedules)
    if explored.exploration.lost:
        raise Lost(f"{subject.name}: {explored.exploration.lost}")
    final = _tell_hypothesis(explored)
    failure = explored.failure
    if failure is None:
        never = HELD.unmet(explored.verdict, None, explored.never_applied(delays=False))
        if never is not None:
            raise AssertionError(f"{subject.name}: {never}")
        return explored
    if scenario is None:
        raise AssertionError(explored.report())
    file = Path(save) / f"{scenario.name.replace('/', '-')}-{failure.fingerprint}.yaml"
    if final:
        _save(scenario, file)
    raise AssertionError(explored.report(_command(scenario, file, strategy, schedules)))


def _tell_hypothesis(explored: Explored) -> bool:
    """Events and a target, if this is a test of Hypothesis. False if it only looks for a smaller example."""
    if "hypothesis" not in sys.modules:  # then nobody is in one of its tests, and it need not be imported
        return True
    from hypothesis import currently_in_test_context, event, target
    from hypothesis.control import current_build_context
    from hypothesis.errors import InvalidArgument

    from dpsim.schedule import act

    if not currently_in_test_context():
        return True
    event(f"verdict: {explored.verdict}")
    for pair in explored.exploration.races:
        before, after = map(act, pair)
        event(f"race: {before} before {after}")
    for probe in explored.exploration.probes:
        event(f"probe: {probe}")
    with suppress(InvalidArgument):  # a label can be used once an example; another call of `holds` has
        target(len(explored.exploration.classes), label="classes of schedules")
    return current_build_context().is_final


def _save(scenario: Scenario, file: Path) -> None:
    from dpsim.scenario import dump_scenario

    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dump_scenario(scenario), encoding="utf-8")


def _command(scenario: Scenario, file: Path, strategy: str, schedules: int) -> str:
    """What to type to see the failure again."""
    from dpsim import registry

    choice = scenario.protocol
    owners: list[type] = [registry.protocol(choice.name).program]
    if choice.variant is not None:
        owners.append(registry.variant(choice.variant).make)
    modules = dict.fromkeys(owner.__module__ for owner in owners if not owner.__module__.startswith("dpsim."))
    words = ["dpsim", "explore", str(file), "--schedules", str(schedules)]
    words += ["--strategy", strategy] if strategy != "portfolio" else []
    words += [word for module in modules for word in ("--module", module)]
    return shlex.join(words)


__all__ = ["holds"]
