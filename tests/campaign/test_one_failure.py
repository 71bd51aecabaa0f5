"""Tests that one mistake is one failure, whatever detail each schedule shows, and that names of older files stay."""

from __future__ import annotations

import numpy as np
import pytest

from dpsim.campaign import subject
from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.subject import Subject
from dpsim.checks.finding import Finding
from dpsim.contract.interface import Rank
from dpsim.explore import Failure, Problem
from dpsim.explore.normal_form import fingerprint
from tests.programs import Scripted
from tests.sim.programs import usual_world


async def own_array(rank: Rank) -> None:
    """Rank 2 uses its own array: with more elements if the message has come, else of another type."""
    if rank.rank == 0:
        rank.send(2, "box", 1, "tell")
    mine = np.ones(1, np.int32)
    if rank.rank == 2:
        early = await rank.mailbox("box").poll("look") is not None
        mine = np.ones(2, np.int32) if early else np.ones(1, np.float32)
    await rank.host("h").all_reduce(mine, site="agree")


def all_failures() -> Explored:
    return explore_subject(Subject(usual_world(3), Scripted(own_array)), "dpor", stop_at_first=False)


def test_schedules_that_differ_in_the_detail_show_one_failure() -> None:
    found = all_failures()
    [failure] = found.exploration.failures.values()
    assert failure.problem.what == "MISMATCH:COLLECTIVE rank 2 agree"
    assert failure.seen == found.exploration.runs >= 2
    assert found.confirmed


def test_the_detail_would_make_two_failures_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin of the identity: it has the full name, as each finding has."""

    def full(finding: Finding) -> str:
        return f"{finding.klass} {finding.culprit}"

    monkeypatch.setattr(subject, "identity", full)
    details = {failure.problem.klass for failure in all_failures().exploration.failures.values()}
    assert details == {"MISMATCH:COLLECTIVE:COUNT", "MISMATCH:COLLECTIVE:DTYPE"}


@pytest.mark.parametrize(
    ("full", "what", "older"),
    [
        ("HANG:COLLECTIVE:ABORTED", "HANG:COLLECTIVE rank 1 a", "HANG:COLLECTIVE:ABORTED rank 1 a"),
        ("HANG:COLLECTIVE:ABORTED", "HANG:COLLECTIVE", "HANG:COLLECTIVE:ABORTED"),
        ("DISAGREEMENT:A B", "DISAGREEMENT:A B rank 1 a", "DISAGREEMENT:A B rank 1 a"),
        ("HANG:JOIN", "HANG:JOIN rank 1 a", "HANG:JOIN rank 1 a"),
    ],
)
def test_a_fingerprint_covers_the_full_name(full: str, what: str, older: str) -> None:
    """The schedule decides the detail, and files of older versions have such names."""
    assert Failure(Problem(full, what), [], ["x"], 1, "dpor").fingerprint == fingerprint(older, ["x"])
