"""Compares dpsim with an oracle of threads: dpsim sees each outcome that some order of their calls has, and no other
one.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from dpsim.campaign.subject import Subject
from dpsim.contract.ops import DECISION_VALUE, KIND, SITE
from dpsim.contract.schedule import CutOff
from dpsim.explore.strategies.dpor import Dpor
from dpsim.scenario import scenario_from
from dpsim.sim.backend import SimBackend, SimRun
from dpsim.torch.threads import ThreadMessages
from tests.properties import of_night
from tests.torch.runs import PROGRAMS
from tests.torch.thread_oracle import Outcome, Spec, drawn, outcomes

pytest.importorskip("torch")

FEW = (0, 1, 2, 3, 7)
RUNS = 3_000
"""The largest number of runs of a seed in a real night. One takes 0.1 to 0.2 s."""
LOCKS: Spec = (
    ((("lock", 0), ("unlock", 0), ("sum", 0, 1)), (("lock", 0), ("unlock", 0))),
    ((("sum", 0, 2),), ()),
)
ONE_GROUP: Spec = (((("sum", 0, 1),), (("sum", 0, 10),)), ((("sum", 0, 100),), (("sum", 0, 1000),)))
CROSSED: Spec = (
    ((("sum", 0, 1), ("sum", 1, 2)), (("get",), ("put", 5))),
    ((("sum", 1, 3), ("sum", 0, 4)), (("set",), ("await",))),
)
"""Main threads that call on two groups in opposite order, beside a thread that waits without end."""


def seen(spec: Spec, runs: int = 10_000) -> tuple[set[Outcome], bool]:
    """Returns the outcomes that the explorer sees in at most this number of runs, and whether the search ended."""
    params = {"target": str(PROGRAMS / "drawn_threads.py:main"), "ranks": 2, "args": [json.dumps(spec)], "silence": 120}
    subject = Subject.of(scenario_from({"name": "tested", "torch": params}))
    strategy, found = Dpor(), set[Outcome]()
    for _ in range(runs):
        if not strategy.begin():
            break
        backend = SimBackend(choose=strategy, memory=False)
        try:
            run = backend.run_program(subject.world, subject.program, subject.prepared)
        except CutOff:
            strategy.end(whole=False)
            continue
        found.add(_outcome(run))
        strategy.end(whole=True)
    return found, strategy.exhausted


def _outcome(run: SimRun) -> Outcome:
    assert {*run.ends} <= {"finished", "blocked"}
    decided = {raw[SITE]: raw[DECISION_VALUE] for journal in run.journals for raw in journal if raw[KIND] == "decision"}
    logs = [tuple(decided.get(f"{rank}.{thread}", ())) for rank in (0, 1) for thread in "mu"]
    return tuple(logs), run.finished


def test_the_oracle_gives_the_known_outcomes_of_plain_threads() -> None:
    assert len(outcomes(ONE_GROUP)) == 2, "each rank has two orders, and two of the four are the same"
    assert {ended for _, ended in outcomes(CROSSED)} == {False}
    assert {logs[:2] for logs, _ in outcomes(LOCKS)} == {((1, 3), (2,)), ((2, 3), (1,))}


@pytest.mark.slow
@pytest.mark.parametrize("spec", [LOCKS, CROSSED], ids=["locks", "crossed"])
def test_exploring_finds_every_outcome_of_the_oracle(spec: Spec) -> None:
    assert seen(spec) == (outcomes(spec), True)


def _seeds() -> list[Any]:
    """Returns the seeds of random threads: a few of them are slow tests, all others nightly ones."""
    return [pytest.param(seed, marks=pytest.mark.slow if seed in FEW else pytest.mark.nightly) for seed in range(60)]


@pytest.mark.parametrize("seed", _seeds())
def test_exploring_finds_every_outcome_of_random_threads(seed: int) -> None:
    """A seed of the night may have too many orders for its part. Then no outcome that it sees is an extra one."""
    spec = drawn(random.Random(seed))
    found, whole = seen(spec, 10_000 if seed in FEW else of_night(RUNS))
    assert found == outcomes(spec) if whole else found <= outcomes(spec)


@pytest.mark.slow
def test_a_lock_that_is_no_choice_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin: the thread that requests a lock first gets it in each schedule, so outcomes are missing."""

    async def answers(self: ThreadMessages, name: str, changes: bool, site: str) -> None:
        self._answer(True)

    monkeypatch.setattr(ThreadMessages, "on_choose", answers)
    assert seen(LOCKS)[0] < outcomes(LOCKS)
