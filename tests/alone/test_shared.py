"""Tests that dpsim finds Python objects that ranks share, for each kind of object.

The tests also check that dpsim reports no finding about objects that ranks may share, such as constants.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace

import pytest

from dpsim import Arguments, Rank, register_protocol
from dpsim.alone import past
from dpsim.campaign import explored as explored_module
from dpsim.campaign import lone_ranks
from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.files import Options
from dpsim.campaign.processes import explore_all
from dpsim.campaign.properties import DoesNotHold, holds
from dpsim.campaign.subject import Subject
from dpsim.campaign.whole import explore_whole
from dpsim.runner import run_scenario
from dpsim.scenario import Scenario, scenario_from
from dpsim.sim import backend
from tests.alone import programs


def scenario(protocol: str, way: str) -> Scenario:
    return scenario_from({"name": "shared", "protocol": {"name": protocol, "params": {"way": way}}})


def explored(protocol: str, way: str, schedules: int = 1_000) -> Explored:
    return explore_subject(replace(Subject.of(scenario(protocol, way)), alone=True), schedules=schedules)


PLAN = "DPSIM_TEST_PLAN"
NAMES = {
    "dict": "BOARD of programs.py",
    "list": "LOG of programs.py",
    "cache": "plan of programs.py",
    "context": "VAR of programs.py",
    "array": "ARRAY of programs.py",
    "environ": f"os.environ[{PLAN!r}]",
    "path": "sys.path",
    "thread": "LOCAL of programs.py",
    "attribute": "Noted.value of programs.py",
    "default": "default of programs.py",
    "generator": "GENERATOR of programs.py",
}
"""How the finding names the shared object. A closure has no name, so the finding names the table that contains it."""


@pytest.mark.parametrize("way", programs.SHARED)
def test_a_value_that_one_rank_leaves_for_another_is_found(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    found = explored("alone_through", way)
    (finding,) = found.findings
    assert finding.klass == "NONDETERMINISM:SHARED_STATE"
    assert finding.culprit is not None
    assert finding.culprit.rank == 1
    told = found.report(full=True)
    assert NAMES.get(way, "SHARED of programs.py") in told
    assert "with the others: the program ends" in told
    assert "alone:           the program raises AssertionError: rank 1 has None, tests/alone/programs.py:" in told


@pytest.mark.parametrize("way", ["list", "environ", "thread"])
def test_a_failure_of_ranks_that_share_a_variable_says_so(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real processes hold, because each has its own variable. The failure stays. In the faulty twin, ranks of a failing
    run do not run alone.
    """
    found = explored("alone_writes", way)
    assert [one.klass for one in found.findings] == ["DISAGREEMENT:NUMBER"]
    assert "programs.py:" in found.shown[0].shared
    assert NAMES[way] in found.shown[0].shared
    assert found.shown[0].shared.split()[-1] in found.report()
    monkeypatch.setattr(explored_module, "shared_in", lambda *_: "")
    assert "alone" not in [line.partition(" ")[0] for line in explored("alone_writes", way).report().splitlines()]


@pytest.mark.parametrize("way", ["no", "raises", "asserts"])
def test_a_failure_of_ranks_that_share_nothing_says_nothing(way: str) -> None:
    found = explored("alone_asserts" if way == "asserts" else "alone_writes", way)
    assert (found.verdict, found.shown[0].shared) == ("violated", "")


@register_protocol("alone_asserts")
class Asserts(programs.Ways):
    """Its assertion has another text alone, because only pytest's own process rewrites the assertions of this file."""

    async def run(self, rank: Rank, args: Arguments[programs.Way]) -> None:
        rank.step = 0
        await rank.host("world").barrier(site="meet")
        assert args.params.way == "another"


def test_an_exception_counts_by_its_class_and_step() -> None:
    for one in (("raised", 0, "main", "Error", 0, "a.py:1"), ("ended", 0, "u1", "end", 0, "a.py:1")):
        assert past.alike((*one, "Error: a"), (*one, "Error: b"))
    assert not past.alike((*one, "Error: a"), (*one, "Other: a"))
    assert not past.alike((*one, "Error: a"), ("ended", 1, *one[2:], "Error: a"))


def test_state_that_the_first_run_used_up_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timed run communicates, and no run of the search does. In the faulty twin, ranks do not run alone."""
    monkeypatch.setattr(programs, "USED", [])
    found = explored("alone_uses_up", "module")
    assert [one.klass for one in found.findings] == ["NONDETERMINISM:SHARED_STATE"]
    assert "USED of programs.py" in found.report(full=True)
    assert explored("alone_uses_up", "own").verdict == "vacuous"
    monkeypatch.setattr(explored_module, "looked_at", lambda *_: lone_ranks.Looked())
    assert explored("alone_uses_up", "module").verdict == "vacuous"


def test_an_exception_that_a_rank_raises_only_alone_is_found() -> None:
    """Runs a program whose rank 1 raises GeneratorExit only if it runs alone. dpsim reports that the two runs of rank 1
    differ. The class of the exception, which is no `Exception`, makes no difference.
    """
    (alike,) = explored("alone_leaves", "always").findings
    assert alike.klass == "CRASH:GENERATOREXIT"
    found = explored("alone_leaves", "without a number")
    assert [one.klass for one in found.findings] == ["NONDETERMINISM:SHARED_STATE"]
    assert "alone:           the program raises GeneratorExit: , tests/alone/programs.py:" in found.report()


@pytest.mark.parametrize("way", programs.OWN)
def test_a_decision_from_state_that_processes_do_not_share_is_found(way: str) -> None:
    assert [one.klass for one in explored("alone_decides", way).findings] == ["NONDETERMINISM:SHARED_STATE"]


@pytest.mark.parametrize("way", programs.HEALTHY)
def test_state_that_is_equal_in_each_process_is_no_finding(way: str) -> None:
    found = explored("alone_decides", way)
    assert (found.verdict, found.looked.runs > 0, found.looked.why) == ("proven", True, "")
    assert "share nothing" not in found.summary()


@pytest.mark.slow
@pytest.mark.runs_once  # the programs share Python state on purpose, so a repeated run may differ
def test_threads_continue_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lone_ranks, "EACH", 32)
    found = explored("alone_started", "own", 200)
    assert found.failure is None
    assert lone_ranks.EACH <= found.looked.runs < found.looked.known
    assert f"checked for {found.looked.runs} of {found.looked.known} different pasts" in found.summary()
    assert explored("alone_started", "module").failure is not None


def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets ranks run alone along one schedule."""
    monkeypatch.setattr(lone_ranks, "EACH", 1)
    monkeypatch.setattr(lone_ranks, "SHARE", 0)


def test_schedules_that_differ_are_compared_with_ranks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a program whose rank 1 reads a shared object in one of its two schedules. dpsim runs the ranks alone for all
    their pasts and finds the object. In the faulty twin, dpsim runs them alone along the first schedule only and
    misses it.
    """
    found = explored("alone_branches", "module")
    assert [one.klass for one in found.findings] == ["NONDETERMINISM:SHARED_STATE"]
    few(monkeypatch)
    found = explored("alone_branches", "module")
    assert (found.verdict, found.looked.runs) == ("proven", 2)
    assert "ranks share no Python object: checked for 2 of 3 different pasts" in found.summary()


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_object_that_ranks_share_in_one_schedule_of_many_is_found(jobs: int) -> None:
    """The search sees 32 schedules, and in one of them rank 1 reads what rank 0 left."""
    subject = replace(Subject.of(scenario("alone_rarely", "module")), alone=True)
    (found,) = explore_all([subject], "dpor", jobs=jobs)
    assert [one.klass for one in found.findings] == ["NONDETERMINISM:SHARED_STATE"]
    assert found.exploration.runs == 32


def test_a_past_that_many_schedules_share_runs_alone_once() -> None:
    found = explored("alone_rarely", "own")
    assert (found.verdict, len(found.exploration.classes)) == ("proven", 32)
    assert (found.looked.runs, found.looked.known) == (34, 34)  # 32 of rank 0, and 2 of rank 1


def test_a_rank_that_shares_its_program_instance_in_one_schedule_is_found() -> None:
    """Ranks share `self` in one of 32 schedules, which the search does not repeat."""
    found = explored("alone_rarely", "self")
    assert [one.klass for one in found.findings] == ["NONDETERMINISM:REPEAT"]


def test_holds_raises_for_what_is_shared() -> None:
    with pytest.raises(DoesNotHold, match="NONDETERMINISM:SHARED_STATE"):
        holds(scenario("alone_through", "dict"))
    assert holds(scenario("alone_decides", "constant")).looked.runs == 2


def test_of_many_worlds_dpsim_runs_the_ranks_of_the_first_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    account = lone_ranks.Account()
    monkeypatch.setattr(lone_ranks, "ACCOUNT", account)
    account.alone = 1.0  # more than a tenth of the exploring time
    worlds = [scenario("alone_decides", "constant")] * 3
    assert explore_whole(worlds, 3, Options()).alone == 1
    account.explored = 1_000.0
    assert explore_whole(worlds, 3, Options()).alone == 3


@pytest.mark.parametrize("repaired", [True, False])
def test_a_run_leaves_no_variable_for_the_processes_of_a_later_one(
    repaired: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs a scenario that sets an environment variable, and then explores it.

    A session of pytest does the same. The run must remove the variable. Otherwise the processes that run ranks alone
    inherit it, and dpsim does not find that the ranks share it. In the faulty twin, the run leaves the variable.
    """
    monkeypatch.setenv(PLAN, "")
    monkeypatch.delenv(PLAN)
    if not repaired:
        monkeypatch.setattr(backend, "put_back", lambda _: ())
    run_scenario(scenario("alone_through", "environ"), backend="sim")
    assert (PLAN not in os.environ) == repaired
    assert explored("alone_through", "environ").verdict == ("violated" if repaired else "proven")


def test_dpsim_does_not_search_for_a_switched_off_class() -> None:
    protocol = {"name": "alone_through", "params": {"way": "list"}}
    off = scenario_from({"name": "off", "protocol": protocol, "checks": {"switched_off": ["NONDETERMINISM"]}})
    assert holds(off).verdict == "proven"


def test_a_program_that_no_other_process_can_make_is_named() -> None:
    subject = Subject.of(scenario("alone_decides", "constant"))
    assert subject.origin is not None
    held = replace(subject.origin, args=lambda: None)
    found = explore_subject(replace(subject, alone=True, origin=held))
    assert any(one.startswith("ranks share no Python object: not checked, because") for one in found.assumes)
