"""Tests whether planted faults applied: in some schedules of a world, or in none. Faulty rules for this fail a test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpsim.campaign import searches
from dpsim.campaign.explored import Explored, Shown, explore_subject
from dpsim.campaign.processes import explore_all
from dpsim.campaign.subject import Subject
from dpsim.checks.expected import HELD, Expected
from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.world import At, CommunicatorSpec, Delay, Fault, Run, World
from dpsim.diagnose.injected import never_applied
from dpsim.explore import Failure, Problem
from dpsim.testing import holds


class Looks(Program[Any]):
    """Rank 0 polls its mailbox. If it finds the message, it makes a sum on its own communicator."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        if rank.rank:
            rank.send(0, "box", 1, "wake")
        elif await rank.mailbox("box").poll("look") is not None:
            await rank.host("own").all_reduce(np.ones(1, np.int32), site="late")


VIOLATED = Expected("violated")
OWN = CommunicatorSpec("own", "own", "host", (0,))
DIES, SKIPS = (Fault(kind, 0, At("late", 0)) for kind in ("die", "skip"))
NOWHERE = Fault("skip", 1, At("nowhere", 0))
SAID = "skip: rank 1 never reached nowhere[0]; its sites: wake"
DIES_AT_ONCE = Fault("die", 0, At("look", 0))
LATE = Delay(1, At("nowhere"), 5)


def looks(*faults: Fault, delays: tuple[Delay, ...] = (), expected: Expected = VIOLATED) -> Subject:
    return Subject(World(2, (OWN,), faults=faults, delays=delays), Looks(), expected=expected)


def explored(subject: Subject, jobs: int = 0, strategy: str = "dpor") -> Explored:
    if not jobs:  # without units
        return explore_subject(subject, strategy, stop_at_first=False)
    (found,) = explore_all([subject], strategy, jobs=jobs, stop_at_first=False)
    return found


@pytest.mark.parametrize("jobs", [0, 1, 2])
def test_a_fault_that_happens_in_some_schedules_happened(jobs: int) -> None:
    found = explored(looks(SKIPS, expected=HELD), jobs)
    assert (found.verdict, found.exploration.runs) == ("proven", 2)
    assert (found.never_applied(), found.unmet) == ([], None)


@pytest.mark.parametrize("jobs", [0, 1, 2])
def test_a_fault_that_stops_each_run_in_which_it_happens_happened(jobs: int) -> None:
    """The fault stops each run in which it applies. So no finished run contains it, but it applied."""
    found = explored(looks(DIES), jobs)
    assert (found.verdict, found.exploration.runs) == ("violated", 2)
    assert (found.never_applied(), found.unmet) == ([], None)


@pytest.mark.parametrize("jobs", [0, 1, 2])
def test_a_fault_that_applies_in_no_schedule_is_reported(jobs: int) -> None:
    """A fault that applies in no schedule is reported, even if another fault gives the expected finding."""
    found = explored(looks(DIES, NOWHERE), jobs)
    assert found.verdict == "violated"
    assert found.never_applied() == [SAID]
    assert found.unmet == f"never applied: {SAID}"


def test_a_fault_that_no_sampled_schedule_applied_is_not_met() -> None:
    found = explored(looks(SKIPS, expected=HELD), strategy="fifo")
    assert found.exploration.runs == 1
    assert str(found.unmet).startswith("never applied: skip: rank 0 never reached late[0]")


def test_holds_takes_what_never_happens_for_a_mistake() -> None:
    """`holds` fails for a fault or a delay that never applies, if it is in the scenario. For delays that Hypothesis
    draws, see tests/campaign/test_properties.py.
    """
    assert holds(replace(looks(SKIPS), expected=HELD)).verdict == "proven"
    with pytest.raises(AssertionError) as raised:
        holds(replace(looks(NOWHERE), expected=HELD))
    assert str(raised.value) == f"this world: never applied: {SAID}"
    with pytest.raises(AssertionError, match="this world: never applied: delay: rank 1 never reached nowhere"):
        holds(replace(looks(SKIPS, delays=(LATE,)), expected=HELD))


@pytest.mark.parametrize("jobs", [0, 1, 2])
def test_a_fault_is_no_mistake_if_no_run_finishes(jobs: int) -> None:
    """No run finishes, so the runs do not show whether the second fault would have applied."""
    found = explored(looks(DIES_AT_ONCE, NOWHERE), jobs)
    assert (found.verdict, found.never_applied(), found.unmet) == ("violated", [], None)


# ---- faulty rules


def test_to_ask_runs_that_stopped_early_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "finished", True)
    with pytest.raises(AssertionError):
        test_a_fault_is_no_mistake_if_no_run_finishes(0)


def test_to_ask_no_runs_that_stopped_early_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_if_finished(world: World, run: Run) -> list[str]:
        return never_applied(world, run) if run.finished else ["not asked"]

    monkeypatch.setattr(searches, "never_applied", only_if_finished)
    with pytest.raises(AssertionError):
        test_a_fault_that_stops_each_run_in_which_it_happens_happened(0)


@pytest.mark.parametrize("jobs", [1, 2])
def test_to_take_the_word_of_the_first_unit_is_caught(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsim.campaign.units.min", lambda why, known: known or why, raising=False)
    with pytest.raises(AssertionError):
        test_a_fault_that_happens_in_some_schedules_happened(jobs)


class Leaves(Looks):
    """Rank 1 leaves out the sum of both ranks, whatever the poll of rank 0 returns."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        await super().run(rank, prepared)
        if not rank.rank:
            await rank.host("both").all_reduce(np.ones(1, np.int32), site="sum")


class LeavesLate(Leaves):
    """Rank 1 leaves out the sum; rank 0 makes it only if its poll finds the message. By default it does not."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        if rank.rank or await rank.mailbox("box").poll("first") is not None:
            await super().run(rank, prepared)


@pytest.mark.parametrize(("program", "default"), [(Leaves(), True), (LeavesLate(), False)])
def test_the_report_says_that_the_default_order_shows_a_hang(program: Program[Any], default: bool) -> None:
    """All choices of a hang are in its normal form, so its length does not show whether the order matters."""
    both = CommunicatorSpec("both", "both", "host", (0, 1))
    (shown,) = explored(Subject(World(2, (OWN, both)), program, expected=VIOLATED)).shown
    (line,) = [line for line in shown.report().splitlines() if line.startswith("schedule ")]
    assert shown.failure.normal
    assert ("no special order of events: the default one shows it" in line) == default
    assert ("with" in line) != default


def test_a_failure_that_needs_some_of_its_choices_counts_all_of_them() -> None:
    """The second number is the one that `dpsim replay` prints for the same schedule."""
    schedule = ["rank 1 has kernels that raise", "rank 0 a[0]", "dp 0>1 #0: eager", "rank 1 b[0]", "rank 0 c[0]"]
    for normal, said in ((schedule[3:4], "1 of 3 choices"), (["rank 0 a[0]", *schedule[3:]], "3 choices")):
        failure = Failure(Problem("HANG", "hang"), schedule, normal, 2, "dpor")
        (_, line, *_) = Shown(failure, None, (), schedule, True).report().splitlines()
        assert line.startswith(f"{said} and 2 draws with {len(normal) - 1} switch")
