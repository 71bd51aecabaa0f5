"""Properties: `holds` asserts in a test that a scenario holds in every schedule, with or without Hypothesis.

    from dpsim.testing import holds

    @given(scenarios(max_faults=0))
    def test_ranks_agree(scenario):
        holds(scenario)

Hypothesis draws only the scenario, and `holds` explores its schedules. So no test is flaky, and a failing scenario
shrinks to the smallest one that fails. A drawn seed would mean another schedule after each step of shrinking.

A failure raises `DoesNotHold`: the report, the smallest scenario as YAML, and a command with a token
(`dpsim.campaign.token`). The next run of this test first tries the saved scenario (`dpsim.campaign.saved`).

`holds` reports the verdict, the pairs of calls that raced, and the reached probes as events of Hypothesis. Its target
is the number of classes of schedules, so Hypothesis prefers scenarios in which more can happen.

    >>> from dpsim.scenario import scenario_from
    >>> request = {"prompt_tokens": 5, "output_tokens": 2}
    >>> found = holds(scenario_from({"name": "one", "workload": {"requests": [request]}}))
    >>> found.verdict, "; ".join(found.assumes[:2])
    ('proven', 'no rank dies; unlimited residency')

Prior art: Hypothesis' `event` and `target`; "Swarm testing", Groce and others, 2012, for drawing worlds.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext, suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpsim.campaign.explored import Explored
    from dpsim.campaign.replay import Replayed
    from dpsim.campaign.subject import Subject
    from dpsim.campaign.token import Token
    from dpsim.diagnose.evidence import Extras
    from dpsim.scenario import Scenario

FOLDER = ".dpsim"
"""The folder for failing scenarios, relative to the working folder."""

SMALLEST = "other drawn scenarios may fail for another cause: run the test again after the fix"
"""Hypothesis prints only the smallest failing example of each exception."""


class DoesNotHold(AssertionError):
    """The exception of `holds`. `replay`, `step`: commands that repeat the failure, or print each choice of its run; or
    empty. `file`: the saved scenario. `results`: the folder of the failure, or None. `drawn`: by Hypothesis.
    """

    def __init__(
        self,
        text: str,
        replay: str = "",
        file: Path | None = None,
        results: Path | None = None,
        step: str = "",
        drawn: bool = False,
    ) -> None:
        ends = [f"replay: {replay}"] * bool(replay) + [f"step by step: {step}"] * bool(step) + [SMALLEST] * drawn
        ends += [f"results: {results}"] * (results is not None)
        super().__init__("\n".join([text, *ends]))
        self.replay = replay
        self.file = file
        self.results = results


def holds(
    tested: Scenario | Subject,
    *,
    schedules: int = 300,
    strategy: str = "portfolio",
    save: str | PathLike[str] = FOLDER,
    cluster: str | None = None,
    against: str | None = None,
) -> Explored:
    """Explores at most `schedules` schedules and returns the result, with a `verdict` of "proven", "bounded" or
    "sampled".

    Raises DoesNotHold if a schedule fails, or if a planted fault or delay happens in no schedule. In a test of
    Hypothesis, an unused delay is no failure, because a small scenario may end before it. If the scenario expects a
    violation, `holds` returns for the expected one, and raises for anything else.

    If the ranks issue only decisions, sleeps and idle gets, the verdict is "vacuous". Then `holds` raises, unless the
    scenario expects it. In a test of Hypothesis it returns, and the plugin fails the test at its end if all scenarios
    were vacuous.

    `cluster`: "auto" or "ray://HOST:PORT" explores on a Ray cluster (docs/explore-long.md). It needs a scenario: a
    `Subject` raises NoCluster. If the scenario's limits contain bounds (`limits.late_deliveries` and others), `holds`
    explores level by level, and the verdict is "bounded".

    `against`: "gloo:40" then runs the scenario 40 times on gloo ("gloo": 5 times). If a proven scenario shows there
    what no schedule shows, `holds` raises (`dpsim.campaign.against`).

    A failing scenario is saved in the folder `save` as NAME-FINGERPRINT.yaml. Raises ValueError for an unknown
    strategy, and `dpsim.contract.world.Lost` if the machine cannot run the scenario. Raises ScenarioError for a file
    that cannot be read (`holds(Subject.of(scenario, folder))` passes its folder).
    """
    __tracebackhide__ = True
    from dpsim.campaign.against import hold
    from dpsim.campaign.commands import command_of
    from dpsim.campaign.explored import explore_subject
    from dpsim.campaign.ray_cluster import NoCluster
    from dpsim.campaign.subject import Subject
    from dpsim.contract.world import Lost
    from dpsim.scenario import Scenario

    scenario = tested if isinstance(tested, Scenario) else None
    subject = tested if isinstance(tested, Subject) else Subject.of(tested)
    subject = replace(subject, alone=not _is_drawn(), outcomes=against is not None)
    if scenario is not None:
        scenario, explored = _explored(scenario, subject, strategy, schedules, cluster)
    elif cluster is not None:
        raise NoCluster("holds: cluster: a Subject cannot travel to other machines; give the scenario instead")
    else:
        explored = explore_subject(subject, strategy, schedules=schedules)
    if explored.exploration.lost:
        raise Lost(f"{subject.name}: {explored.exploration.lost}")
    held = [] if against is None else hold(explored, against, scenario, cluster)
    drawn, final = _note_in_hypothesis(explored)
    never = explored.never_applied(delays=not drawn)
    unmet = explored.unmet_where(never)
    if unmet is None or (drawn and not never and _nothing_to_hold(explored)):
        return explored
    if explored.failure is None or scenario is None:
        raise DoesNotHold(
            explored.report() or "\n".join([f"{subject.name}: {unmet}", *held, explored.exploration.stood]).rstrip()
        )
    raise _failed(
        scenario, explored, unmet, command_of(scenario, explored, strategy, schedules), Path(save), drawn, final
    )


def _failed(
    scenario: Scenario,
    explored: Explored,
    unmet: str,
    command: tuple[str, str],
    save: Path,
    drawn: bool,
    final: bool,
) -> DoesNotHold:
    """Returns the exception for a failure, and saves the scenario and the results of the final example."""
    from dpsim.campaign.alternatives import of_shown
    from dpsim.campaign.commands import failure_text, step_by_step
    from dpsim.campaign.saved import save_scenario
    from dpsim.diagnose.variants import extras_of_choice

    assert explored.failure is not None
    replay, unnamed = command
    file = save / f"{scenario.name.replace('/', '-')}-{explored.failure.fingerprint}.yaml"
    unwritten = save_scenario(scenario, file) if final else "there is a smaller one"
    saved = f", not saved: {unwritten}" if unwritten else f", saved as {file}"
    extras = extras_of_choice(scenario.protocol)
    if final and explored.shown:  # events to swap cost more runs, so only the printed example has them
        extras = of_shown(extras, explored.subject, explored.shown[0], scenario)
    described = failure_text(explored.report(extras), scenario, unmet, saved)
    if unnamed:
        described += f"\nnot to be replayed by a command: {unnamed}" + ("" if unwritten else "; the scenario is saved")
    folders = _results(scenario, explored, save, replay) if final else []
    results = folders[0] if folders else None
    step = step_by_step(scenario, replay)
    return DoesNotHold(described, replay, None if unwritten else file, results, step, drawn)


def _explored(
    scenario: Scenario, subject: Subject, strategy: str, schedules: int, cluster: str | None
) -> tuple[Scenario, Explored]:
    """Returns the failing variant, or the scenario. Raises NoCluster for an invalid address, or without Ray."""
    from dpsim.campaign.deepening import explore_bounded
    from dpsim.campaign.explored import explore_subject
    from dpsim.campaign.files import Options
    from dpsim.campaign.processes import explore_all
    from dpsim.campaign.ray_cluster import RayCluster
    from dpsim.campaign.remote import Source

    with nullcontext() if cluster is None else RayCluster.at(cluster) as machines:
        bounded = explore_bounded(
            scenario, None, Options(strategy, schedules, cluster=machines, outcomes=subject.outcomes)
        )
        if bounded is not None:
            return bounded
        if machines is None:
            return scenario, explore_subject(subject, strategy, schedules=schedules)
        there = machines.on([Source.of(scenario, None)])
        return scenario, explore_all([subject], strategy, schedules=schedules, elsewhere=there)[0]


def holds_again(token: Token, replay: str = "", saved: str = "") -> Explored:
    """Repeats the failure of a token, called `replay`: first along its schedule, then in every schedule, as `holds`
    found it. Raises DoesNotHold if either is not as expected, with the command of the schedule that fails now.
    """
    __tracebackhide__ = True
    from dpsim.campaign.alternatives import of_replayed
    from dpsim.campaign.commands import failure_text, step_by_step
    from dpsim.campaign.replay import replay_token
    from dpsim.campaign.subject import Subject
    from dpsim.diagnose.report import report
    from dpsim.diagnose.variants import extras_of_choice
    from dpsim.explore.strategies.replay import Mismatch

    scenario, described, unmet, now, results = token.scenario, "", None, token, list[Path]()
    with suppress(Mismatch):  # the run now polls without end, which exploring reports
        again = replay_token(token)
        if again.findings:
            extras = of_replayed(extras_of_choice(scenario.protocol), again)
            described = f"{report(again.run, again.findings, extras)}\n\n{again.summary()}"
            unmet = scenario.expected_of_all.unmet("violated", again.findings[0])
            if unmet is not None:
                if again.schedule is not None and (again.skipped or not again.same):
                    now = token._replace(steps=tuple(again.schedule.steps), klass=again.findings[0].klass)
                results = _results_again(again, extras)
    if unmet is None:
        scenario, explored = _explored(scenario, Subject.of(scenario), token.strategy, token.schedules, None)
        unmet = explored.unmet_where(explored.never_applied(delays=False))
        if unmet is None or _nothing_to_hold(explored):
            return explored
        described = explored.report(extras_of_choice(scenario.protocol)) or f"{scenario.name}: {unmet}"
        if explored.shown:
            shown = explored.shown[0]
            now = token._replace(scenario=scenario, steps=tuple(shown.schedule), klass=shown.failure.problem.klass)
            results = _results(scenario, explored, Path(FOLDER), "")
    if now != token and (word := str(now)):
        replay = replay.replace(str(token), word) if str(token) else replay
    kept = results[0] if results else None
    text = failure_text(described, scenario, unmet, saved)
    raise DoesNotHold(text, replay, results=kept, step=step_by_step(scenario, replay))


def _nothing_to_hold(explored: Explored) -> bool:
    return explored.verdict == "vacuous" and explored.subject.expected.verdict == "held"


def _note_in_hypothesis(explored: Explored) -> tuple[bool, bool]:
    """Reports to Hypothesis. Returns whether its test runs, and whether this is its final example."""
    if "hypothesis" not in sys.modules:  # so no test of Hypothesis runs
        return False, True
    from hypothesis import currently_in_test_context, event, target
    from hypothesis.control import current_build_context
    from hypothesis.errors import InvalidArgument

    from dpsim.campaign.drawn import count, running_test  # the plugin looks for the module in `sys.modules`
    from dpsim.contract.events import act

    if not currently_in_test_context():
        return False, True
    event(f"verdict: {explored.verdict}")
    count("vacuous" if _nothing_to_hold(explored) else "held", running_test())
    for pair in explored.exploration.races:
        before, after = map(act, pair)
        event(f"race: {before} before {after}")
    for probe in explored.exploration.probes:
        event(f"probe: {probe}")
    with suppress(InvalidArgument):  # another call of `holds` has used the label
        target(len(explored.exploration.classes), label="classes of schedules")
    return True, current_build_context().is_final


def _is_drawn() -> bool:
    if "hypothesis" not in sys.modules:
        return False
    from hypothesis import currently_in_test_context

    return currently_in_test_context()


def _results(scenario: Scenario, explored: Explored, save: Path, replay: str) -> list[Path]:
    from dpsim.campaign.results import results_of_explored

    first = explored.failure
    return results_of_explored(
        scenario, explored, save / "results", lambda failure: (replay,) if replay and failure is first else ()
    )


def _results_again(again: Replayed, extras: Extras) -> list[Path]:
    from dpsim.campaign.results import results_of_replayed
    from dpsim.campaign.subject import Subject

    kept = results_of_replayed(again, Subject.of(again.scenario).world, extras, Path(FOLDER, "results"))
    return [kept] if kept is not None else []
