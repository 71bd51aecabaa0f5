"""Tests runs that are held against a search. An outcome of the search refutes nothing, and each kind of other outcome
refutes a proof. The backend of most tests changes one value of a simulated run; two tests use gloo.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dpsim import runner
from dpsim.campaign.against import AgainstBackend, against
from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.files import Options, explore_files
from dpsim.campaign.properties import DoesNotHold
from dpsim.campaign.subject import Subject
from dpsim.campaign.unseen import Against
from dpsim.contract.ops import KIND, SITE
from dpsim.contract.words import BadInput
from dpsim.contract.world import Backend, Run
from dpsim.scenario import Scenario, parse_scenario
from dpsim.testing import holds
from tests.campaign import against_programs
from tests.campaign.against_programs import Alter, Altered, decides, learns, raises
from tests.sized import sized_scenario

pytestmark = pytest.mark.xdist_group("gloo")

OFF = ("NONDETERMINISM:*",)
"""Otherwise a rank that runs alone, in another process, shows that a module differs."""


def scenario(name: str, ranks: int = 2, more: str = "") -> Scenario:
    return parse_scenario(sized_scenario(name, ranks, more).encode())


def searched(name: str, ranks: int = 2, schedules: int = 300, more: str = "") -> Explored:
    """Explores a program, and collects its outcomes."""
    subject = replace(Subject.of(scenario(name, ranks, more)), outcomes=True, switched_off=OFF)
    return explore_subject(subject, schedules=schedules)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Against]:
    """Returns a function that holds an explored program against runs with an alteration."""

    def hold(explored: Explored, alter: Alter = lambda run: None, runs: int = 2) -> Against:
        monkeypatch.setitem(runner._backends, "altered", Altered(alter))
        return against(explored, AgainstBackend("altered", runs))

    return hold


def test_a_run_of_the_search_refutes_nothing(held: Callable[..., Against]) -> None:
    explored = searched("t_asked_twice", 3)
    found = held(explored, runs=3)
    assert (explored.verdict, found.runs, found.outcomes, found.unseen, explored.unmet) == ("proven", 3, 1, [], None)


@pytest.mark.parametrize(
    ("alter", "learned", "seen"),
    [
        (learns("poll2", 5), "poll2[0] 5", {"poll2[0] None", "poll2[0] 2"}),
        (learns("sum", 9, 1), "sum[0] 9", {"sum[0] 4255857137"}),
        (decides("total", 4, 2), "total[0] decided 4", {"total[0] decided 3"}),
        (raises(1), "raised ValueError: no such thing", {"finished"}),
    ],
)
def test_each_other_outcome_refutes_a_proof(
    alter: Alter, learned: str, seen: set[str], held: Callable[..., Against]
) -> None:
    explored = searched("t_asked_twice", 3)
    found = held(explored, alter)
    assert found.refutes is not None
    assert (found.runs, found.refutes.learned, found.refutes.early) == (1, learned, False)
    if "sum[0]" not in learned:
        assert set(found.refutes.seen) == seen
    assert found.refutes.where.startswith(("tests/campaign/against_programs.py:", "here.py:7"))
    assert explored.unmet == found.unmet() is not None


def test_outcomes_that_were_never_together_refute_a_proof(held: Callable[..., Against]) -> None:
    """Rank 1 learns what the poll of rank 0 found. If it learns the other value, each rank is as in a schedule."""
    explored = searched("t_one_of_two")
    poll = next(raw[-1] for raw in timed(explored).journals[0] if raw[KIND] == "learned" and raw[SITE] == "poll")
    found = held(explored, learns("got", poll is None, 1))
    assert found.refutes is not None
    assert found.refutes.seen == ()
    assert len(found.refutes.together) == 1


def timed(explored: Explored) -> Run:
    assert explored.subject.origin is not None
    return Altered().run(explored.subject.world, explored.subject.origin.protocol, explored.subject.origin.args)


def test_only_a_proof_can_be_refuted(held: Callable[..., Against]) -> None:
    explored = searched("t_asked_twice", 3, schedules=1)
    found = held(explored, learns("poll2", 5))
    assert (explored.verdict, len(found.unseen), found.refutes) == ("sampled", 1, None)
    assert explored.unmet is None


def test_a_violated_world_has_no_runs(held: Callable[..., Against]) -> None:
    explored = searched("t_asked_twice", 3, more="faults: [{kind: skip, rank: 1, at: {site: sum, ordinal: 0}}]\n")
    found = held(explored)
    assert (explored.verdict, found.runs, found.why) == ("violated", 0, "the world is violated")


def test_a_time_out_that_passed_early_refutes_nothing(held: Callable[..., Against]) -> None:
    """The twin takes a message that no rank sent."""
    assert [one.early for one in held(searched("t_waits_for_answer"), learns("answer", None)).all_unseen] == [True] * 2
    twin = held(searched("t_waits_for_answer"), learns("answer", 8))
    assert (twin.early, twin.refutes is not None) == (0, True)


def test_a_time_out_that_a_sleep_outlasts_excuses_nothing(held: Callable[..., Against]) -> None:
    """The time-out of 50 ms passes, as it may. Then the rank gets a message that no rank sent."""
    found = held(searched("t_waits_for_sleeper"), learns("answer", None), 1)
    assert found.all_unseen == []
    found = held(searched("t_waits_for_sleeper"), lambda run: [learns("answer", None)(run), learns("more", 2)(run)], 1)
    assert (found.early, found.refutes is not None) == (0, True)


@pytest.mark.parametrize(("site", "refuted"), [("sum", False), ("told", False), ("number", True)])
def test_a_sum_of_floats_may_be_rounded_in_another_way(site: str, refuted: bool, held: Callable[..., Against]) -> None:
    explored = searched("t_sums_floats", 3)
    assert explored.verdict == "proven"
    assert (held(explored, learns(site, 1)).refutes is not None) == refuted


def test_each_run_has_its_own_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Altered()
    monkeypatch.setitem(runner._backends, "altered", backend)
    against(searched("t_waits_for_answer"), AgainstBackend("altered", 3), seed=10)
    assert [world.pauses for world in backend.worlds] == [10, 11, 12]


def test_two_processes_collect_the_outcomes_of_one() -> None:
    found = [
        explore_files([(scenario("t_asked_twice", 4), None)], Options(jobs=jobs, outcomes=True))[0] for jobs in (1, 2)
    ]
    one, two = (outcome.explored.exploration.outcomes for outcome in found)
    assert one is not None
    assert one == two
    assert len(one.whole) == 8  # of three polls


def test_a_search_collects_nothing_unless_asked() -> None:
    explored = explore_subject(Subject.of(scenario("t_asked_twice")))
    assert explored.exploration.outcomes is None
    assert against(explored, AgainstBackend("sim")).why


@pytest.mark.parametrize("text", ["gloo:", "gloo:0", "gloo:-1", "gloo:x"])
def test_a_wrong_number_of_runs_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        AgainstBackend.parsed(text)


def test_holds_raises_for_a_refuted_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(runner._backends, "altered", Altered())
    assert holds(scenario("t_asked_twice"), against="altered:2").against is not None
    monkeypatch.setitem(runner._backends, "altered", Altered(decides("total", 4)))
    with pytest.raises(DoesNotHold, match=r"total\[0\] decided 4"):
        holds(scenario("t_asked_twice"), against="altered:2")


@pytest.mark.slow
def test_gloo_learns_only_what_the_search_saw(dpsim_backend: Callable[..., Backend]) -> None:
    dpsim_backend("gloo", size=3)
    found = against(searched("t_asked_twice", 3), AgainstBackend("gloo", 15))
    assert (found.runs, found.unseen, found.early) == (15, [], 0)
    assert found.outcomes > 1  # the pauses differ


@pytest.mark.slow
def test_gloo_refutes_a_proof_where_the_model_ends(
    dpsim_backend: Callable[..., Backend], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin has the same variable in all processes."""
    dpsim_backend("gloo", size=2)
    assert not against(searched("t_outside"), AgainstBackend("gloo", 10)).unseen
    monkeypatch.setattr(against_programs, "PLANTED", True)
    explored = searched("t_outside")
    found = against(explored, AgainstBackend("gloo", 40))
    assert explored.verdict == "refuted"
    assert found.refutes is not None
    assert found.refutes.learned == "outside[0] decided False"
