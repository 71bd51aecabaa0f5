"""Runs the scripts of `tests.worlds.event_answers` on real backends. If the host has observed later work, the query
returns True.
"""

from __future__ import annotations

import pytest

from real.backend import TorchBackend
from tests.real.worlds import NCCL, make_world
from tests.worlds.event_answers import CERTAIN, MAYBE, answers

pytest.importorskip("torch")
pytestmark = [pytest.mark.xdist_group("gloo"), pytest.mark.parametrize("backend", ["gloo", NCCL], indirect=True)]


@pytest.mark.parametrize("name", CERTAIN)
def test_a_query_about_an_observed_event_returns_true(backend: TorchBackend, name: str) -> None:
    run = backend.run(make_world(devices=["dp"]), "event_answers", {"script": name, "demands": True})
    assert run.finished, run.ends
    assert set(answers(run)) <= {True}


@pytest.mark.parametrize("name", MAYBE)
def test_a_query_about_an_unobserved_event_may_return_either_answer(backend: TorchBackend, name: str) -> None:
    run = backend.run(make_world(devices=["dp"]), "event_answers", {"script": name})
    assert run.finished, run.ends
    assert answers(run)
