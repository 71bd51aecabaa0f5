"""Against: runs an explored world several times on real processes, and looks each outcome up in what the search saw.

    held = against(explored, AgainstBackend("gloo", 40))
    held.unseen                 # the outcomes that no schedule shows
    held.refutes                # the first of them, if the world was proven

Before each call a rank sleeps for a drawn time (`World.pauses`), so that runs differ. If a proof is right, the search
saw the outcome of each run: what each thread learned (`dpsim.campaign.learned`). The first unseen outcome ends the
runs, unless the caller wants all.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import chdir
from dataclasses import replace
from typing import Any, NamedTuple

from dpsim.campaign.explored import Explored
from dpsim.campaign.learned import learned
from dpsim.campaign.unseen import Against, compared
from dpsim.contract.words import BadInput
from dpsim.contract.world import BackendUnavailable, Lost
from dpsim.explore import Outcomes
from dpsim.runner import SIMULATION, find_backend
from dpsim.scenario import Scenario
from dpsim.scenario.to_world import only_simulated

RUNS = 5
"""The number of runs if the user gives none."""

JUDGED = ("proven", "bounded", "sampled")
"""Verdicts that a run on another backend can be held against."""


class AgainstBackend(NamedTuple):
    """A backend, and the number of runs on it."""

    backend: str
    runs: int = RUNS

    @staticmethod
    def parsed(text: str) -> AgainstBackend:
        """Returns the backend and number of "gloo" or "gloo:40". Raises BadInput for a number below 1.

        >>> AgainstBackend.parsed("gloo:40"), AgainstBackend.parsed("gloo").runs
        (AgainstBackend(backend='gloo', runs=40), 5)
        """
        backend, colon, number = text.partition(":")
        if not colon:
            return AgainstBackend(backend)
        if not number.isdecimal() or not 1 <= int(number) <= 1_000_000:
            raise BadInput(f"{text}: expected a backend and a number of runs from 1, such as gloo:40")
        return AgainstBackend(backend, int(number))

    def refuse(self, scenario: Scenario) -> None:
        """Raises ScenarioError, UnknownBackend, ImportError or BackendUnavailable if it cannot run a scenario."""
        on = find_backend(self.backend)
        refused = None if self.backend == SIMULATION else only_simulated(scenario, self.backend)
        if refused is not None:
            raise refused
        reason = on.unavailable(scenario.size)
        if reason is not None:
            raise BackendUnavailable(reason)


def against(
    explored: Explored,
    wanted: AgainstBackend,
    seed: int = 0,
    all_runs: bool = False,
    progress: Callable[[int, int | None], None] = lambda done, total: None,
) -> Against:
    """Runs an explored world of a scenario on a backend, and notes the result in `explored.against`, too. The search
    has to have `Subject.outcomes`. `all_runs`: go on after the first unseen outcome. Raises Lost, and
    BackendUnavailable.
    """
    subject, seen = explored.subject, explored.exploration.outcomes
    result = explored.against = Against(wanted.backend, wanted.runs, explored.exploration.verdict == "proven")
    if explored.exploration.verdict not in JUDGED or seen is None or subject.origin is None:
        result.why = f"the world is {explored.verdict}" if seen is not None else "the search collected no outcomes"
        return result
    backend: Any = find_backend(wanted.backend)
    origin, known, target = subject.origin, Outcomes(), subject.program.unmodified(subject.prepared)
    if target is not None and not hasattr(backend, "run_unmodified"):
        raise BackendUnavailable(f"the backend {wanted.backend} cannot run an unmodified program of torch")
    while result.runs < wanted.runs and (all_runs or not result.unseen):
        progress(result.runs, wanted.runs)
        world = replace(subject.world, pauses=seed + result.runs, times=True)
        with chdir(origin.folder):  # a rank of the search may have left it
            if target is None:
                run = backend.run(world, origin.protocol, origin.args)
            else:
                run = backend.run_unmodified(target, world)
        if run.lost:
            raise Lost(f"{subject.name} on {wanted.backend}: {run.lost}")
        result.runs += 1
        known.add(learned(run, calls=target is None)[0])
        unseen = compared(run, seen, result.runs, calls=target is None, delays=world.delays)
        if unseen is not None:
            result.all_unseen.append(unseen)
    result.outcomes = len(known.whole)
    return result


def hold(explored: Explored, text: str, scenario: Scenario | None, cluster: str | None) -> list[str]:
    """Does the same for `holds`. Returns lines. Raises ValueError on a cluster, whose processes collect no outcomes."""
    if cluster is not None:
        raise ValueError(f"against={text!r}: not together with cluster, because the search collects outcomes only here")
    wanted = AgainstBackend.parsed(text)
    if scenario is not None:
        wanted.refuse(scenario)
    return against(explored, wanted).described()
