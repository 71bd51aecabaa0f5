"""`same_on`: checks that a scenario does the same on a real backend as in the simulation, schedule by schedule.

    def test_mine():
        same_on(load_scenario("mine.yaml"), "gloo", schedules=5)

A *gate* fixes the outcome of a call that races, such as which message a poll takes (`dpsim.campaign.gates`). Each run
of the simulation yields the gates for a run on the backend. So messages, threads, stores, events and sends have the
same order in both runs, and races make no difference. Then `same_on` compares the traces: what each host thread issued,
learned and decided, and how each actor ended.
"""

from __future__ import annotations

from pathlib import Path

from dpsim.campaign.gates import Again, again, runs_of
from dpsim.contract.world import BackendUnavailable, Lost
from dpsim.runner import find_backend, sentence
from dpsim.scenario import Scenario


def same_on(
    scenario: Scenario, backend: str = "gloo", *, schedules: int = 3, seed: int = 0, base: Path | None = None
) -> list[Again]:
    """Runs the scenario `schedules` times on the simulation: first with simulated time, then with random schedules.
    Repeats each run on the backend in the same order. `base`: the folder of the scenario's files.

    Raises AssertionError at the first record that differs, and BackendUnavailable if this machine cannot run the
    backend. Raises ScenarioError for a scenario that cannot run at all, and Lost if the machine takes a resource away.
    `dpsim.runner.close_backends` or the pytest plugin closes the backend.
    """
    reason = find_backend(backend).unavailable(scenario.size)
    if reason is not None:
        raise BackendUnavailable(reason)
    done = []
    for number, simulated in enumerate(runs_of(scenario, schedules, seed, base)):
        one = again(scenario, simulated, backend, base)
        if one.result.run.lost:
            raise Lost(f"{scenario.name}: {one.result.run.lost}")
        if one.difference is not None:
            way = "the run in time" if not number else f"schedule {number} of seed {seed}"
            found = "".join(f"\n{sentence(one.result.run, finding)}" for finding in one.result.findings[:1])
            raise AssertionError(f"{scenario.name}, {way}: {backend} is not as sim: {one.difference}{found}")
        done.append(one)
    return done
