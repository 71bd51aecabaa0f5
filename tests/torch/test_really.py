"""Tests unmodified programs on torch's own gloo, held against their search. A run that does something else refutes it:
another decision, a hang, an exception, a death.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dpsim.campaign.against import AgainstBackend, against
from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.subject import Subject
from dpsim.contract.ops import KIND
from dpsim.contract.program import Unmodified
from dpsim.contract.world import Backend, World
from dpsim.scenario import scenario_from
from dpsim.torch.program import TorchPrepared, TorchProgram
from real.backend import GlooBackend
from real.unmodified_rank import is_user_file
from tests.torch.runs import PROGRAMS

pytestmark = pytest.mark.xdist_group("gloo")

FILE = str(PROGRAMS / "really.py")

OTHERS = {
    "decides_otherwise": ("rank 0", "total[0] decided 3", ("total[0] decided 2",)),
    "leaves_out": ("rank 1", "blocked", ("finished",)),
    "raises": ("rank 1", "raised ValueError: no such thing", ("finished",)),
    "dies": ("rank 1", "died", ("finished",)),
}
"""For each function that runs in place of `agrees`: who left the outcomes of the search, where, and what came there."""


def test_files_of_libraries_are_not_the_program() -> None:
    assert is_user_file(__file__)
    assert not is_user_file("<frozen runpy>")
    assert not is_user_file(pytest.__file__)


@pytest.fixture(scope="module")
def explored() -> Explored:
    pytest.importorskip("torch")
    params = {"target": f"{FILE}:agrees", "ranks": 2}
    subject = Subject.of(scenario_from({"name": "really", "torch": params, "limits": {"stall": "2s"}}))
    return explore_subject(replace(subject, outcomes=True), "dpor")


@pytest.mark.slow
def test_a_run_has_decisions_and_ends(dpsim_backend: Callable[..., GlooBackend]) -> None:
    run = dpsim_backend("gloo", size=2).run_unmodified(Unmodified(FILE, "agrees"), World(2, (), pauses=1))
    assert run.ends == ["finished", "finished"]
    kinds = [[raw[KIND] for raw in journal] for journal in run.journals]
    assert kinds == [["decision", "finished"]] * 2
    assert run.journals[0][0][5] == "really.py:14"
    assert len(run.times) == 2


@pytest.mark.slow
def test_a_proven_program_ends_on_gloo_as_in_the_search(
    explored: Explored, dpsim_backend: Callable[..., Backend]
) -> None:
    dpsim_backend("gloo", size=2)
    found = against(explored, AgainstBackend("gloo", 3))
    assert (explored.verdict, found.runs, found.outcomes, found.all_unseen) == ("proven", 3, 1, [])


@pytest.mark.slow
@pytest.mark.parametrize("other", OTHERS)
def test_gloo_refutes_a_program_that_does_something_else(
    other: str, explored: Explored, dpsim_backend: Callable[..., Backend], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unmodified(program: TorchProgram, prepared: TorchPrepared) -> Unmodified:
        return Unmodified(FILE, other)

    dpsim_backend("gloo", size=2)
    monkeypatch.setattr(TorchProgram, "unmodified", unmodified)
    found = against(explored, AgainstBackend("gloo", 3))
    assert found.refutes is not None
    assert (found.refutes.actor, found.refutes.learned, found.refutes.seen) == OTHERS[other]
